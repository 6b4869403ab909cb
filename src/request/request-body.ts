import type { Refusal } from "../core/refusals.ts";
import type { Exchange } from "../ports/exchange.ts";
import type { Endpoint } from "../wire/endpoint.ts";
import { FormWatch, type FormReader, type FormSeal } from "../wire/form.ts";
import type { ModelRequestResult } from "../wire/model-request.ts";
import { boundaryOf, FormScanner } from "../wire/multipart.ts";
import { Upload } from "./upload.ts";

/** Body of a request. It is held whole, or read while it is passed on. */
export interface RequestBody {
  /** Bytes that have been read: the whole body, or its first bytes if it is passed on. */
  readonly seen: Buffer;
  /** Body to send. */
  readonly sent: Buffer | Upload | undefined;
  read(): ModelRequestResult;
  /** Sets which parts may still arrive. Callers use it once the hold is placed. */
  seal(seal: FormSeal): void;
  /** Names of unknown parts that arrived after `seal`. */
  readonly lateUnknown: readonly string[];
  /** Frees its memory. */
  release(): void;
}

type RequestBodyResult =
  | { readonly ok: true; readonly body: RequestBody }
  /** `refusal` is null when the client left meanwhile. */
  | { readonly ok: false; readonly refusal: Refusal | null };

/** Reads a body once. Reads only as much of a form with files as its price needs. */
export async function readRequestBody(exchange: Exchange, endpoint: Endpoint): Promise<RequestBodyResult> {
  const contentType = exchange.header("content-type") ?? "";
  if (endpoint.form !== null && /^multipart\//i.test(contentType))
    return openForm(exchange, endpoint.form, contentType);
  if (endpoint.isOpen === true) return openAny(exchange, endpoint);
  const body = await exchange.readBody();
  if (!body.ok) return body;
  const { bytes, release } = body;
  return {
    ok: true,
    body: {
      seen: bytes,
      sent: bytes,
      read: () => endpoint.readRequest(bytes),
      seal: () => undefined,
      lateUnknown: [],
      release,
    },
  };
}

/** Opens a body of any kind, and reads its first bytes. */
async function openAny(exchange: Exchange, endpoint: Endpoint): Promise<RequestBodyResult> {
  const opened = await exchange.openBody();
  if (!opened.ok) return opened;
  const upload = new Upload(opened.body, { push: () => undefined, isEnough: false });
  const head = await upload.readHead();
  if (!head.ok) return head;
  const seen = upload.head;
  const sent = opened.body.length === 0 ? undefined : upload;
  return {
    ok: true,
    body: {
      seen,
      sent,
      read: () => endpoint.readRequest(seen),
      seal: () => undefined,
      lateUnknown: [],
      release: () => discard(upload),
    },
  };
}

function discard(upload: Upload): void {
  if (!upload.isComplete) upload.discard();
}

async function openForm(exchange: Exchange, form: FormReader, contentType: string): Promise<RequestBodyResult> {
  const opened = await exchange.openBody();
  if (!opened.ok) return opened;
  const boundary = boundaryOf(contentType);
  const watch = new FormWatch(form.fields);
  const scanner = boundary === undefined ? undefined : new FormScanner(boundary, watch);
  if (scanner === undefined) watch.unclear();
  const upload = new Upload(opened.body, {
    push: (bytes) => scanner?.push(bytes),
    get isEnough() {
      return watch.isEnough;
    },
  });
  const head = await upload.readHead();
  if (!head.ok) return head;
  const seen = upload.head;
  const facts = watch.head({ isOpen: !upload.isShort, bytes: seen.length });
  return {
    ok: true,
    body: {
      seen,
      sent: upload,
      read: () => form.read(facts),
      seal: (seal) => watch.seal(seal, (refusal) => upload.refuse(refusal)),
      get lateUnknown() {
        return watch.lateUnknown;
      },
      release: () => discard(upload),
    },
  };
}
