"""Published targets, as comments for a `hopbudget.toml`: somebody else's numbers, each with its source.

A source's number is quoted; where it says no percentile, the one written here is ours and the comment says so.
"""

from typing import Final

WORDS_A_TOKEN: Final = 0.75
"""OpenAI's rule of thumb for English: 100 tokens are about 75 words."""
SILENT_WPM: Final = 238
"""Words a minute of silent reading of English non-fiction (Brysbaert 2019)."""
ALOUD_WPM: Final = 183
"""Words a minute of reading aloud (Brysbaert 2019)."""


def pace(words_a_minute: float) -> float:
    """Tokens a second of a reader or speaker, to one decimal."""
    return round(words_a_minute / WORDS_A_TOKEN / 60, 1)


PRESETS: Final = f"""\
# ---------------------------------------------------------------------------------------------------------------------
# Presets: published targets of others, for systems that are not yours. Uncomment one, rename it, and put in your own
# numbers.
# ---------------------------------------------------------------------------------------------------------------------

# chat: somebody reads along.
# MLPerf Inference v5.0, Llama 2 70B interactive (MLCommons, April 2025, mlcommons.org/2025/04/llm-inference-v5):
# 99th percentile of TTFT at most 450 ms and of TPOT at most 40 ms. Its older server scenario: 2 s and 200 ms.
# {SILENT_WPM} words a minute is the mean of silent reading (Brysbaert 2019, doi:10.1016/j.jml.2019.104047). At
# {WORDS_A_TOKEN} words a token (OpenAI's rule of thumb for English) that is {pace(SILENT_WPM)} tokens a second.
# The 1% is ours.
# [workloads.chat]
# objectives = [
#   {{ metric = "ttft", percentile = 99, limit = "450ms" }},
#   {{ metric = "tpot", percentile = 99, limit = "40ms" }},
#   {{ metric = "underrun", pace = {pace(SILENT_WPM)}, limit = "1%" }},
# ]

# voice: a speech engine reads it out.
# Twilio, "A Guide to Core Latency in AI Voice Agents" (November 2025): the model's first token in 375 ms, upper limit
# 750 ms, of 1,115 ms (1,400 ms) from mouth to ear. It names no percentiles; the ones here are ours.
# {ALOUD_WPM} words a minute is the mean of reading aloud (Brysbaert 2019): {pace(ALOUD_WPM)} tokens a second.
# [workloads.voice]
# objectives = [
#   {{ metric = "ttfa", percentile = 50, limit = "375ms" }},
#   {{ metric = "ttfa", percentile = 95, limit = "750ms" }},
#   {{ metric = "underrun", pace = {pace(ALOUD_WPM)}, limit = "1%" }},
# ]

# agent: many calls, then an answer.
# Nielsen, "Response Times: The 3 Important Limits" (1993): ten seconds keep the user's attention. MLPerf Inference
# v5.0, Llama 3.1 405B, long prompts: 99th percentile of TTFT at most 6 s and of TPOT at most 175 ms. The p95 is ours.
# [workloads.agent]
# objectives = [
#   {{ metric = "answer_start", percentile = 95, limit = "10s" }},
#   {{ metric = "ttft", percentile = 99, limit = "6s" }},
#   {{ metric = "tpot", percentile = 99, limit = "175ms" }},
# ]

# batch: nobody waits, so no first token; completion, and errors.
# MLPerf's offline scenario has no latency limit and counts throughput. The batch APIs of OpenAI and Anthropic say 24
# hours. The p95 and the 1% are ours.
# [workloads.batch]
# objectives = [
#   {{ metric = "trajectory_duration", percentile = 95, limit = "24h" }},
#   {{ metric = "error_share", limit = "1%" }},
# ]
"""
