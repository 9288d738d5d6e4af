"""`python -m hopbudget.endpoint SEED`: the endpoint as a child process, which ends when its standard input does."""

import sys

from hopbudget.endpoint.serving import serve_until_input_ends

serve_until_input_ends(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
