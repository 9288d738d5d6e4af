-- The baseline that holds attributes as a store does: the same statement as read_json.sql, with each span's attributes made
-- one flat object, {"name": value}, instead of the list that was read. {file} is the OTLP/JSON file, one request a line.
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
                        startTimeUnixNano BIGINT, endTimeUnixNano BIGINT, events JSON,
                        attributes STRUCT(
                            key VARCHAR,
                            value STRUCT(
                                stringValue VARCHAR, intValue BIGINT, doubleValue DOUBLE, boolValue BOOLEAN,
                                arrayValue JSON, kvlistValue JSON, bytesValue VARCHAR))[],
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
    '{' || array_to_string(
        list_transform(
            span.attributes,
            lambda a: to_json(a.key) || ':' || coalesce(
                to_json(a.value.stringValue), to_json(a.value.intValue), to_json(a.value.doubleValue),
                to_json(a.value.boolValue), a.value.arrayValue, a.value.kvlistValue, to_json(a.value.bytesValue))),
        ',') || '}' AS attributes,
    span.events AS events
FROM raw;
