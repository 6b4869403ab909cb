import { freeParameters, headerValues } from "./field-table.ts";
import { mergeFindings, Findings, namesIn } from "./findings.ts";
import type { Endpoint } from "./endpoint.ts";
import type { ModelRequest } from "./model-request.ts";

/** The request with what its headers and its query say of the price; the same one where they say nothing. */
export function withHeadersAndQuery(
  request: ModelRequest,
  { fields, isOpen = false }: Pick<Endpoint, "fields" | "isOpen">,
  headers: Iterable<readonly [name: string, value: string]>,
  query: string,
): ModelRequest {
  let findings: Findings | undefined;
  for (const [name, value] of headers) {
    if (name.startsWith("openai-") || name.startsWith("anthropic-"))
      judgeHeader((findings ??= new Findings()), name, value);
  }
  for (const [name, value] of query === "" ? [] : new URLSearchParams(query)) {
    if (!freeParameters.has(name)) judgeParameter((findings ??= new Findings()), name, value, fields);
  }
  if (findings === undefined || findings.isEmpty) return request;
  // Of other paths nothing is known, so that no parameter is unknown: what they name counts.
  const facts = isOpen ? findings.withoutUnknown() : findings;
  return {
    ...request,
    size: { ...request.size, unboundedFields: [...request.size.unboundedFields, ...findings.context] },
    unboundedFields: [...request.unboundedFields, ...findings.expensive],
    fields: mergeFindings(request.fields, facts),
  };
}

function judgeHeader(findings: Findings, name: string, value: string): void {
  const known = headerValues.get(name);
  if (known === "free") return;
  const path = `header ${name}`;
  if (known === undefined) return unknown(findings, path, value);
  for (const piece of value.split(",").map((text) => text.trim())) {
    const expensive = known.expensive.find(([pattern]) => pattern.test(piece));
    if (expensive !== undefined) findings.field(path, piece, { expensive: expensive[1] });
    else if (!known.free.some((pattern) => pattern.test(piece))) unknown(findings, path, piece);
  }
}

/** A gateway may read a parameter as the field of its name. */
function judgeParameter(findings: Findings, name: string, value: string, fields: Endpoint["fields"]): void {
  const path = `query ${name}`;
  const twin = fields.pricedFieldFor(name);
  const meaning = twin === undefined ? undefined : fields.meaningOf(twin);
  if (twin === "model" || meaning === "models") {
    for (const model of namesIn(value)) findings.model(model);
    return;
  }
  if (meaning === undefined || meaning === "free" || meaning === "context") return unknown(findings, path, value);
  findings.field(
    path,
    value,
    typeof meaning === "object" && "expensive" in meaning ? meaning : { expensive: `it may be read as '${twin}'` },
  );
  for (const piece of namesIn(value)) findings.mention(piece);
}

function unknown(findings: Findings, path: string, value: string): void {
  findings.unknownField(path, value);
  for (const piece of namesIn(value)) findings.mention(piece);
}
