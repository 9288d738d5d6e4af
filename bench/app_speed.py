"""The app on 650,000 hops with 60 gaps each in 80,000 trajectories: first paint, interactions, memory, quantiles."""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

from hopbudget.store import queries, reports
from hopbudget.store.duck import Store
from tools.driving import PATIENCE_S, browser, served

TRAJECTORIES = 80_000
WORKLOAD = "research"
ROUNDS = 3
LIMITS = {"paint": 2.0, "interaction": 1.0, "quantiles": 1.2, "memory": 600}
FILL = (
    "CREATE TEMP TABLE t AS SELECT i, md5(i::VARCHAR) AS trace_id, "
    "substr(md5((i * 7)::VARCHAR), 1, 16) AS root_span_id, "
    "CASE WHEN i % 10 = 0 THEN 'support' ELSE 'research' END AS workload, 'v' || (i % 3) AS run, "
    "'s' || (i // 4) AS session, 4 + (hash(i) % 9)::INT AS k, (hash(i + 1) % 1000) / 1000.0 AS u, "
    f"TIMESTAMP '2026-01-01' + INTERVAL (i * 30) SECOND AS began FROM range({TRAJECTORIES}) r(i)",
    "CREATE TEMP TABLE h AS SELECT t.*, j, 0.2 + 0.3 * (hash(i, j) % 997) / 997 AS ttft, "
    "0.008 + 0.006 * (hash(j, i) % 991) / 991 AS tpot, ttft + 60 * tpot AS d FROM t, unnest(range(k)) x(j)",
    "CREATE TEMP TABLE s AS SELECT *, sum(d + 0.1) OVER (PARTITION BY i ORDER BY j) - (d + 0.1) AS start_s FROM h",
    "INSERT INTO trajectories BY NAME SELECT trace_id, root_span_id, any_value(workload) AS workload, "
    "any_value(run) AS run, any_value(session) AS session, 'svc' AS service, any_value(began) AS started_at, "
    "max(start_s + d) + 0.05 AS duration_s, count(*) AS hop_count, sum(d) AS model_s, 0.1 * count(*) AS work_s, "
    "0.0 AS paused_s, max(start_s + ttft) AS answer_start_s, "
    "CASE WHEN any_value(u) < 0.02 THEN 'failed' ELSE 'ok' END AS outcome, true AS complete, false AS intervened, "
    "MAP {'region': ['east', 'west', 'north'][1 + any_value(i) % 3], 'tenant': 't' || (any_value(i) % 40)} "
    "AS attributes FROM s GROUP BY trace_id, root_span_id",
    "INSERT INTO hops BY NAME SELECT trace_id, root_span_id, substr(md5((i * 100 + j)::VARCHAR), 1, 16) AS span_id, "
    "workload, run, session, CASE WHEN j = 0 THEN 'plan' WHEN j = k - 1 THEN 'answer' "
    "ELSE ['search', 'read', 'check'][1 + (j % 3)] END AS hop, 1 + j // 3 AS visit, "
    "['model-a', 'model-b'][1 + (j % 2)] AS model, true AS streamed, j = k - 1 AS final, "
    "began + to_microseconds((start_s * 1e6)::BIGINT) AS started_at, start_s, d AS duration_s, d AS e2e_s, "
    "ttft AS ttft_s, 'first_token' AS ttft_source, ttft AS ttfa_s, ttft AS attempt_ttft_s, tpot AS tpot_s, "
    "'measured' AS tpot_source, 500 + (hash(i + j) % 4000)::BIGINT AS input_tokens, 61 AS output_tokens, "
    "'usage' AS output_tokens_source, 61 AS chunks, list_transform(range(60), lambda g: "
    "(tpot * 1e6 * (0.5 + ((i * 31 + j * 17 + g * 7919) % 1000) / 1000.0))::INTEGER) AS itl_us, 60 AS itl_exact, "
    "false AS itl_censored, 1 AS attempts, 0.0 AS backoff_s, 'ok' AS outcome FROM s",
)
RAW = (
    "SELECT hop, count(*), quantile_cont(duration_s, [0.5, 0.9, 0.95, 0.99]), "
    "quantile_cont(ttft_s, [0.5, 0.9, 0.95, 0.99]), quantile_cont(tpot_s, [0.5, 0.9, 0.95, 0.99]) "
    "FROM hops WHERE workload = ? AND outcome IN ('ok', 'truncated') GROUP BY hop",
    "SELECT hop, outcome, count(*) FROM hops WHERE workload = ? GROUP BY hop, outcome",
)


def run() -> str:
    """The section of the page."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        store = Path(folder) / "traces.duckdb"
        hops = fill(store)
        ours_s, raw_s = quantile_times(store)
        rows = [
            (
                "quantiles and outcomes by hop, over raw SQL for the same",
                f"{ours_s / raw_s:.2f}",
                f"{LIMITS['quantiles']}",
            )
        ]
        if shutil.which("chromium") and shutil.which("chromedriver"):
            rows += in_a_browser(store, Path(folder))
        else:
            rows.append(("first paint and interactions", "no chromium here", "-"))
    table = "\n".join(f"| {name} | {measured} | {limit} |" for name, measured, limit in rows)
    return (
        f"## The app\n\n{hops:,} hops with 60 gaps each in {TRAJECTORIES:,} trajectories, in headless Chromium on this "
        "machine. First paint: from the address to every chart of Overview drawn, in a server that has answered one "
        f"session before, with nothing of this workload cached. Interactions: medians of {ROUNDS}, from the key to the "
        "page drawn anew.\n\n| | measured | at most |\n|---|---|---|\n" + table + "\n"
    )


def fill(path: Path) -> int:
    """A store of that size, written by SQL; returns the number of hops."""
    with Store(path).writing() as con:
        con.execute("SET memory_limit = '2GB'")
        for statement in FILL:
            con.execute(statement)
        ((hops,),) = con.execute("SELECT count(*) FROM hops").fetchall()
    return int(hops)


def quantile_times(path: Path) -> tuple[float, float]:
    """Seconds of the report's quantiles and outcomes by hop, and of raw SQL for the same; medians, in turns."""
    where = queries.Where(workload=WORKLOAD)
    ours, raw = [], []
    with duckdb.connect(str(path), read_only=True) as con:
        for _ in range(3 * ROUNDS):
            began = time.perf_counter()
            reports.by_hop(con, where)
            ours.append(time.perf_counter() - began)
            began = time.perf_counter()
            for statement in RAW:
                con.execute(statement, [WORKLOAD]).fetchall()
            raw.append(time.perf_counter() - began)
    return statistics.median(ours), statistics.median(raw)


def in_a_browser(store: Path, folder: Path) -> list[tuple[str, str, str]]:
    """First paint, interactions and the server's memory."""
    with served(store, folder) as (address, process), browser(folder / "profile", "--window-size=1280,1000") as driven:
        warm(driven, address)
        paint_s = timed(driven, lambda: driven.get(f"{address}?workload={WORKLOAD}"), 4)
        spent: dict[str, float] = {}
        for page, slider in (("breaches", "deadline"), ("budgets", "deadline"), ("streams", "pace")):
            driven.get(f"{address}?page={page}&workload={WORKLOAD}")
            settled(driven, 3)
            spent[f"{page}: the {slider}'s slider"] = statistics.median(
                timed(driven, lambda slider=slider: nudge(driven, slider), 3) for _ in range(ROUNDS)
            )
        rows = [("first paint of Overview, s", f"{paint_s:.2f}", f"{LIMITS['paint']}")]
        rows += [(f"{name}, s", f"{took_s:.2f}", f"{LIMITS['interaction']}") for name, took_s in spent.items()]
        rows.append(("the server's memory, MB", f"{peak_mb(process.pid)}", f"{LIMITS['memory']}"))
    return rows


def warm(driven: Any, address: str) -> None:
    """One session that imports everything and reads nothing of this workload."""
    driven.get(f"{address}?workload=support&page=budgets")
    settled(driven, 3)


def nudge(driven: Any, slider: str) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    driven.find_element(By.CSS_SELECTOR, f'.st-key-{slider} input[type="range"]').send_keys(Keys.ARROW_LEFT)


def timed(driven: Any, act: Callable[[], None], charts: int) -> float:
    """Seconds from the act until the page has changed and stands."""
    before = drawn(driven)
    began = time.perf_counter()
    act()
    while (time.perf_counter() - began) < PATIENCE_S:
        if drawn(driven) != before and standing(driven, charts):
            return time.perf_counter() - began
        time.sleep(0.02)
    raise TimeoutError(f"the page did not change within {PATIENCE_S} s")


def settled(driven: Any, charts: int) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not standing(driven, charts):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the page was not drawn within {PATIENCE_S} s")
        time.sleep(0.05)


def drawn(driven: Any) -> str:
    script = "return Array.from(document.querySelectorAll('[data-testid=\"stMetric\"]')).map(e => e.innerText).join()"
    return str(driven.execute_script(script))


def standing(driven: Any, charts: int) -> bool:
    """Whether the script has run to its end and so many charts stand, none of them waiting."""
    script = (
        "const app = document.querySelector('[data-testid=\"stApp\"]');"
        "const charts = Array.from(document.querySelectorAll('[data-testid=\"stVegaLiteChart\"]'));"
        "return app && app.dataset.testScriptState === 'notRunning' && charts.length >= arguments[0]"
        " && charts.every(c => c.querySelector('svg.marks'));"
    )
    return bool(driven.execute_script(script, charts))


def peak_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024
