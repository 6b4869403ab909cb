import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "./until.ts";

/** A span as a trace receiver sees it. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  /** Empty for the first span of a trace. */
  readonly parentSpanId: string;
  readonly traceState: string;
  readonly name: string;
  /** 3 is CLIENT. */
  readonly kind: number;
  /** Nanoseconds since 1970 UTC. */
  readonly startedAt: bigint;
  readonly endedAt: bigint;
  /** 2 is ERROR. */
  readonly status: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  /** Attributes of the process that sent it. */
  readonly resource: Readonly<Record<string, unknown>>;
}

/** A real receiver of OTLP over HTTP that decodes spans according to the published schema. */
export interface TraceReceiver extends AsyncDisposable {
  /** Address for OTEL_EXPORTER_OTLP_ENDPOINT, such as "http://127.0.0.1:43210". */
  readonly url: string;
  readonly spans: readonly ReceivedSpan[];
  readonly requests: readonly { readonly path: string; readonly headers: IncomingHttpHeaders; readonly body: Buffer }[];
  /** Sets how the next requests are answered; status 200 with an empty message by default. */
  answer(how: (response: ServerResponse) => void): void;
  /** Resolves once this number of spans has arrived, with all of them. */
  waitFor(count: number): Promise<readonly ReceivedSpan[]>;
}

export async function startTraceReceiver(): Promise<TraceReceiver> {
  const spans: ReceivedSpan[] = [];
  const requests: { path: string; headers: IncomingHttpHeaders; body: Buffer }[] = [];
  let how: ((response: ServerResponse) => void) | null = null;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const body = Buffer.concat(chunks);
    requests.push({ path: request.url ?? "", headers: request.headers, body });
    if (how !== null) return how(response);
    spans.push(...decodeSpans(body));
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    requests,
    answer: (next) => void (how = next),
    async waitFor(count) {
      await until(() => spans.length >= count, `${count} spans have arrived`);
      return spans;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Value of a field on the wire: a number, or bytes. */
type Wire = bigint | Buffer;

/** Reads the fields of a protobuf message, with all values of each field number. */
function fieldsOf(bytes: Buffer): ReadonlyMap<number, readonly Wire[]> {
  const fields = new Map<number, Wire[]>();
  let at = 0;
  const wholeNumber = (): bigint => {
    for (let value = 0n, shift = 0n; ; shift += 7n) {
      const byte = bytes.readUInt8(at++);
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  };
  const fixed = (size: 4 | 8): bigint => {
    at += size;
    return size === 8 ? bytes.readBigUInt64LE(at - 8) : BigInt(bytes.readUInt32LE(at - 4));
  };
  const counted = (): Buffer => {
    const length = Number(wholeNumber());
    at += length;
    return bytes.subarray(at - length, at);
  };
  while (at < bytes.length) {
    const tag = Number(wholeNumber());
    const readers: Readonly<Record<number, () => Wire>> = {
      0: wholeNumber,
      1: () => fixed(8),
      2: counted,
      5: () => fixed(4),
    };
    const read = readers[tag & 7];
    if (read === undefined) throw new Error(`a protobuf message has no wire type ${tag & 7}`);
    fields.set(tag >> 3, [...(fields.get(tag >> 3) ?? []), read()]);
  }
  return fields;
}

type Fields = ReturnType<typeof fieldsOf>;

const messages = (fields: Fields, number: number) =>
  (fields.get(number) ?? []).map((value) => fieldsOf(value as Buffer));
const bytesOf = (fields: Fields, number: number) => (fields.get(number)?.[0] as Buffer | undefined) ?? Buffer.alloc(0);
const numberOf = (fields: Fields, number: number) => (fields.get(number)?.[0] as bigint | undefined) ?? 0n;

/*
 * Field numbers of opentelemetry/proto/collector/trace/v1/trace_service.proto and of the files that it imports (version 1.7).
 */

/** Reads an ExportTraceServiceRequest. */
function decodeSpans(body: Buffer): ReceivedSpan[] {
  return messages(fieldsOf(body), 1).flatMap((resourceSpans) => {
    const resource = Object.assign({}, ...messages(resourceSpans, 1).map((each) => attributesOf(each, 1)));
    return messages(resourceSpans, 2).flatMap((scope) => messages(scope, 2).map((span) => spanOf(span, resource)));
  });
}

function spanOf(span: Fields, resource: Readonly<Record<string, unknown>>): ReceivedSpan {
  const [status] = messages(span, 15);
  return {
    traceId: bytesOf(span, 1).toString("hex"),
    spanId: bytesOf(span, 2).toString("hex"),
    traceState: bytesOf(span, 3).toString(),
    parentSpanId: bytesOf(span, 4).toString("hex"),
    name: bytesOf(span, 5).toString(),
    kind: Number(numberOf(span, 6)),
    startedAt: numberOf(span, 7),
    endedAt: numberOf(span, 8),
    status: status === undefined ? 0 : Number(numberOf(status, 3)),
    attributes: attributesOf(span, 9),
    resource,
  };
}

/** Reads repeated KeyValue messages. */
function attributesOf(from: Fields, number: number): Record<string, unknown> {
  return Object.fromEntries(
    messages(from, number).map((pair) => [bytesOf(pair, 1).toString(), valueOf(messages(pair, 2)[0] ?? new Map())]),
  );
}

/** Reads an AnyValue: text, a boolean, an integer, a double or a list. */
function valueOf(any: Fields): unknown {
  if (any.has(1)) return bytesOf(any, 1).toString();
  if (any.has(2)) return numberOf(any, 2) === 1n;
  if (any.has(3)) return Number(BigInt.asIntN(64, numberOf(any, 3)));
  if (any.has(4)) {
    const bits = Buffer.alloc(8);
    bits.writeBigUInt64LE(numberOf(any, 4));
    return bits.readDoubleLE();
  }
  return messages(any, 5).flatMap((list) => messages(list, 1).map(valueOf));
}
