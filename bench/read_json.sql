-- The baseline of the import benchmark: DuckDB's own JSON reader, told every column, into a table without a key.
-- {file} is the OTLP/JSON file, one export request a line.
CREATE TABLE spans AS
WITH resources AS (
    SELECT unnest(resourceSpans) AS r
    FROM read_json(
        '{file}',
        format = 'newline_delimited',
        columns = {
            resourceSpans: 'STRUCT(
                resource STRUCT(attributes JSON),
                scopeSpans STRUCT(
                    scope STRUCT(name VARCHAR),
                    spans STRUCT(
                        traceId VARCHAR, spanId VARCHAR, parentSpanId VARCHAR, name VARCHAR, kind TINYINT,
                        startTimeUnixNano BIGINT, endTimeUnixNano BIGINT, attributes JSON, events JSON,
                        status STRUCT(code TINYINT, message VARCHAR))[])[])[]'
        }
    )
),
scopes AS (SELECT r.resource.attributes AS resource, unnest(r.scopeSpans) AS s FROM resources),
raw AS (SELECT resource, s.scope.name AS scope, unnest(s.spans) AS span FROM scopes)
SELECT
    span.traceId AS trace_id,
    span.spanId AS span_id,
    span.parentSpanId AS parent_span_id,
    span.name AS name,
    span.kind AS kind,
    span.startTimeUnixNano AS start_ns,
    span.endTimeUnixNano AS end_ns,
    span.status.code AS status,
    scope,
    resource,
    span.attributes AS attributes,
    span.events AS events
FROM raw;
