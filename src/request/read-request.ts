import type { Refusal } from "../core/refusals.ts";
import type { Events } from "../ports/events.ts";
import type { BodyBytes, Exchange } from "../ports/exchange.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { readForm } from "../wire/form.ts";
import { withHeadersAndQuery, type BodyForm } from "../wire/headers.ts";
import type { ModelRequest, ModelRequestResult } from "../wire/model-request.ts";

/** Dependencies for reading a request. */
export interface ReadingSteps {
  readonly events: Events;
  /** Treatment of a request with unknown fields: hold the worst case, or refuse. */
  readonly unknownFields: "hold" | "refuse";
}

/** Returns the reader of a body that is a form; undefined for any other body. */
function formReaderOf({ readForm }: Endpoint, contentType: string, body: BodyBytes): Endpoint["readForm"] {
  return readForm !== undefined && body.length > 0 && /^multipart\//i.test(contentType) ? readForm : undefined;
}

/**
 * Returns the form in which Farebox reads the body of a request. A body on an unknown path keeps its type if it has
 * one.
 */
export function bodyFormOf(
  exchange: Exchange,
  endpoint: Endpoint,
  { unread }: ModelRequest,
  body: BodyBytes,
): BodyForm {
  const contentType = exchange.header("content-type");
  if (formReaderOf(endpoint, contentType ?? "", body) !== undefined) return "form";
  const keepsType =
    endpoint.isUnknown === true && (contentType !== undefined || unread !== undefined || body.length === 0);
  return keepsType ? "unread" : "json";
}

/**
 * Largest body in several pieces that is copied into shared memory to be read, in bytes. The pieces of a larger body
 * are joined.
 */
const copiedBytesMax = 512 * 1024;
/** Memory that all such copies share. It stays in the CPU's cache, while joined pieces would need new memory. */
let sharedBytes: Buffer | undefined;

/**
 * Passes a body in one piece to `read`, and returns its result. `read` must not keep any of the bytes, because the next
 * body overwrites them.
 */
export function readTogether<T>(body: BodyBytes, read: (bytes: Buffer) => T): T {
  if (body.pieces.length === 1 || body.length > copiedBytesMax) return read(body.whole);
  sharedBytes ??= Buffer.allocUnsafeSlow(copiedBytesMax);
  let length = 0;
  for (const piece of body.pieces) length += piece.copy(sharedBytes, length);
  return read(sharedBytes.subarray(0, length));
}

function readBody(endpoint: Endpoint, body: BodyBytes, contentType: string): ModelRequestResult {
  const formReader = formReaderOf(endpoint, contentType, body);
  if (formReader !== undefined) return formReader(readForm(body.whole, contentType));
  return readTogether(body, (bytes) => endpoint.readRequest(bytes, contentType));
}

/** Reads a request to an endpoint, with the headers and the query that belong to it. */
export function readRequest(
  steps: ReadingSteps,
  endpoint: Endpoint,
  exchange: Exchange,
  body: BodyBytes,
): ModelRequestResult {
  const read = readBody(endpoint, body, exchange.header("content-type") ?? "");
  if (!read.ok) return read;
  const request = withHeadersAndQuery(read.request, endpoint, exchange.headers(), exchange.query);
  const { unknown: fields } = request.fields;
  if (fields.length > 0) steps.events.unknownFields({ route: endpoint.route, fields });
  const [unknown] = steps.unknownFields === "refuse" ? fields : [];
  return unknown === undefined ? { ok: true, request } : { ok: false, refusal: unknownRefused(unknown) };
}

function unknownRefused(field: string): Refusal {
  const message = `Farebox does not know '${field}', and FAREBOX_UNKNOWN_FIELDS is 'refuse'.`;
  return { code: "invalid_request", param: field, message };
}
