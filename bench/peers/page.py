def section(results): return ""
