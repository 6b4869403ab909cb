import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readStatedError } from "../../../src/wire/stated-error.ts";
import { runs } from "../../support/effort.ts";

const read = (text: string) => readStatedError(JSON.parse(text));

describe("an answer with a success status", () => {
  it.each<[string, number | null, string]>([
    ['{"error":{"message":"x","type":"invalid_request_error","code":null}}', null, "gateway_error"],
    ['{"error":{"message":"x","code":"invalid_api_key"}}', null, "gateway_error"],
    ['{"error":{"message":"x","code":429}}', 429, "gateway_429"],
    ['{"error":{"message":"x","code":"429"}}', 429, "gateway_429"],
    ['{"error":{"message":"x","metadata":{"status":503}}}', 503, "gateway_503"],
    ['{"error":"x"}', null, "gateway_error"],
    ['{"error":true,"message":"x"}', null, "gateway_error"],
    ['{"error":"insufficient credits"}', null, "upstream_no_credit"],
    ['[{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT"}}]', 400, "gateway_400"],
    ['{"errors":[{"message":"x","code":1001}]}', null, "gateway_1001"],
    ['{"errors":{"model":["is unknown"]}}', null, "gateway_error"],
    ['{"detail":"Not authenticated"}', null, "gateway_error"],
    ['{"detail":[{"loc":["body"],"msg":"field required"}]}', null, "gateway_error"],
    ['{"type":"about:blank","title":"x","status":403,"detail":"y"}', 403, "gateway_403"],
    ['{"object":"error","message":"x","code":40001}', null, "gateway_40001"],
    ['{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', null, "upstream_overload"],
    ['{"type":"error","code":"server_error","message":"x"}', null, "gateway_error"],
    ['{"type":"invalid_request_error","message":"x"}', null, "gateway_error"],
    ['{"__type":"ThrottlingException","message":"x"}', null, "gateway_error"],
    ['{"event":"error","status":400,"code":"x","message":"y"}', 400, "gateway_400"],
    [
      '{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error"}}}',
      null,
      "gateway_error",
    ],
    ['{"status":"failed","error":null,"output":[]}', null, "gateway_error"],
    ['{"success":false}', null, "gateway_error"],
    ['{"success":"false","message":"x"}', null, "gateway_error"],
    ['{"ok":false,"description":"x"}', null, "gateway_error"],
    ['{"success":0,"data":null}', null, "gateway_error"],
    ['{"success":false,"code":500,"msg":"x"}', 500, "gateway_500"],
    ['{"code":401,"data":null}', 401, "gateway_401"],
    ['{"code":"401","data":null}', 401, "gateway_401"],
    ['{"code":500,"data":{}}', 500, "gateway_500"],
    ['{"code":500,"data":{"id":7}}', 500, "gateway_500"],
    ['{"code":10001,"data":null}', null, "gateway_10001"],
    ['{"code":-1,"msg":"x"}', null, "gateway_-1"],
    ['{"code":"InvalidApiKey","message":"x","request_id":"r"}', null, "gateway_error"],
    ['{"status":"error","message":"x"}', null, "gateway_error"],
    ['{"status":"failed","msg":"x"}', null, "gateway_error"],
    ['{"status":500,"message":"x"}', 500, "gateway_500"],
    ['{"status":"439","msg":"expired","body":null,"choices":null}', 439, "gateway_439"],
    ['{"statusCode":401,"message":"x"}', 401, "gateway_401"],
    ['{"error_code":17,"error_msg":"x"}', null, "gateway_17"],
    ['{"errcode":40013,"err_msg":"x"}', null, "gateway_40013"],
    ['{"choices":null,"base_resp":{"status_code":1008,"status_msg":"x"}}', null, "gateway_1008"],
    ['{"choices":null,"status_msg":"x"}', null, "gateway_error"],
    ['{"choices":null,"message":"x"}', null, "gateway_error"],
    ['{"choices":[],"error":"x"}', null, "gateway_error"],
    ['{"choices":[],"code":500,"message":"x"}', 500, "gateway_500"],
    ['{"status":"processing","error":{"message":"x"}}', null, "gateway_error"],
    ['{"status":"processing","code":503,"message":"x"}', 503, "gateway_503"],
    ['{"status":"processing","success":false}', null, "gateway_error"],
    ['{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"error":"x"}', null, "gateway_error"],
    ['{"choices":[{"message":{"content":""}}],"success":false}', null, "gateway_error"],
    ['{"choices":[{"message":{"content":""}}],"code":429,"message":"x"}', 429, "gateway_429"],
    ['{"header":{"code":10013,"message":"x","sid":"s","status":2}}', null, "gateway_10013"],
    ['{"Response":{"Error":{"Code":"AuthFailure","Message":"x"},"RequestId":"r"}}', null, "gateway_error"],
    ['{"ResponseMetadata":{"Error":{"CodeN":100010,"Code":"x","Message":"y"}}}', null, "gateway_error"],
    ['{"choices":[{"error":{"code":502,"message":"x"},"message":{"content":""}}]}', 502, "gateway_502"],
    ['{"choices":[{"finish_reason":"error","message":{"content":""}}]}', null, "gateway_error"],
    ['{"code":200,"data":{"task_id":"","status":"Failed","error":{"code":5,"message":"x"}}}', null, "gateway_5"],
    ['{"code":200,"data":null,"error":{"message":"x"}}', null, "gateway_error"],
  ])("states an error: %s", (text, status, reason) => {
    expect(read(text)).toMatchObject({ kind: "refused", status, reason });
  });

  it.each<[string, string]>([
    ['{"code":408,"data":null}', "gateway_408"],
    ['{"error":{"code":"504","message":"x"}}', "gateway_504"],
    ['{"status":520}', "gateway_520"],
    ['{"error":{"code":401,"metadata":{"code":524}}}', "gateway_524"],
    ['{"error":{"message":"bad response status code 504"}}', "upstream_timeout"],
    ['{"error":{"code":500,"message":"The request timed out."}}', "network"],
    ['{"error":"Request timeout"}', "network"],
    ['{"error":{"type":"timeout_error","message":"x"}}', "network"],
    ['{"error":{"code":"DEADLINE_EXCEEDED","message":"x"}}', "gateway_timeout"],
    ['{"code":10000,"data":null,"message":"context deadline exceeded"}', "time_limit"],
    ['{"code":-1,"msg":"\u8bf7\u6c42\u8d85\u65f6"}', "gateway_timeout"],
    ['{"status":"timeout"}', "network"],
    ['{"success":false,"message":"time limit reached"}', "time_limit"],
    ['{"error":{"message":"Timeout while the image was downloaded"}}', "network"],
  ])("states a timeout: %s", (text, reason) => {
    expect(read(text)).toMatchObject({ kind: "open", reason });
  });

  it.each([
    "{}",
    "null",
    "7",
    '"error"',
    "[]",
    '[{"error":"x"},{"text":"y"}]',
    '{"error":null}',
    '{"error":false}',
    '{"error":""}',
    '{"error":{}}',
    '{"error":[]}',
    '{"errors":[null,""]}',
    '{"error":0}',
    '{"error":{"code":0,"message":"","raw_message":"","detail":null}}',
    '{"error":{"code":200,"message":"success"}}',
    '{"error":{"message":"","type":"","param":null,"code":null}}',
    '{"detail":null}',
    '{"success":true,"message":"x"}',
    '{"success":null,"data":null}',
    // A success without a result: it is not known what the gateway billed.
    '{"code":200,"data":null}',
    '{"code":0,"msg":"x","data":null}',
    '{"code":"success","data":null,"message":""}',
    '{"code":200,"message":"success"}',
    '{"choices":null}',
    '{"choices":[],"usage":null}',
    '{"status":"Success","data":null}',
    '{"status":"queued","output":[]}',
    '{"code":"pending","data":null}',
    '{"code":1,"description":"success"}',
    // Data may be a result, or the id of a task.
    '{"code":10001,"data":{"id":"t-1"}}',
    '{"code":10001,"data":"t-1"}',
    '{"code":10001,"data":[{"id":"t-1"}]}',
    '{"code":1,"description":"x","result":"14001934816969359"}',
    '{"code":1,"result":14001934816969359}',
    '{"success":false,"data":{"job":"7"}}',
    '{"error":"x","data":[{"b64_json":""}]}',
    '{"message":"x"}',
    '{"code":1.5,"data":null}',
    // A report on a running request.
    '{"type":"status","status":"processing","message":"Searching the web","data":null}',
    '{"type":"status","message":"Searching the web","data":null}',
    '{"type":"keep-alive","message":"x","data":null}',
    '{"choices":null,"status":"queued","message":"waiting"}',
    '{"choices":null,"state":"IN_PROGRESS","message":"waiting"}',
    '{"status":"processing","code":10001,"detail":"waiting","data":null}',
    '{"choices":[],"message":"processing"}',
    '{"choices":[],"msg":"x"}',
    '{"choices":[],"code":10001,"message":"x"}',
    '{"choices":[],"description":"reasoning started"}',
    '{"candidates":[],"message":"x"}',
    '{"choices":[],"detail":"x"}',
    '{"success":true,"detail":"x"}',
    // A text with an unknown name may be a result.
    '{"code":10000,"image_url":"https://a/b.png"}',
    '{"choices":null,"message":"x","file":{"url":"https://a/b.png"}}',
    // A whole answer without a text.
    '{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"detail":"served from fallback"}',
    '{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"code":10000}',
    '{"choices":[{"message":{"content":""},"finish_reason":"length"}],"code":"length","message":"x","data":null}',
    '{"candidates":[{"finishReason":"STOP"}],"detail":"x"}',
    // Events of a stream.
    '{"type":"response.code_interpreter_call_code.done","code":"404"}',
    '{"type":"response.mcp_call.failed","item_id":"i"}',
    '{"type":"response.output_item.done","item":{"status":"failed","error":"x"}}',
    '{"type":"response.created","response":{"status":"in_progress","error":null,"output":[],"metadata":{"code":"x"}}}',
    '{"type":"response.incomplete","response":{"status":"incomplete","incomplete_details":{"reason":"content_filter"}}}',
    '{"object":"chat.completion.chunk","choices":[{"delta":{"content":"error"},"finish_reason":"stop"}]}',
  ])("states no error: %s", (text) => {
    expect(read(text)).toBeUndefined();
  });

  it("states an error next to data if the caller ignores data", () => {
    const record = { code: 10001, data: { equivalent_in_usd: 5 } };
    expect([readStatedError(record), readStatedError(record, true)?.reason]).toEqual([undefined, "gateway_10001"]);
    for (const more of [{ status: "processing" }, { choices: [] }, { note: "x" }, { detail: "x" }])
      expect(readStatedError({ ...record, ...more }, true)?.reason).toBe("gateway_10001");
  });
});

const absent = fc.constantFrom(null, false, "", " ", {}, [], { code: 0, message: "" }, [null, ""]);
const success = fc.constantFrom(0, 200, 204, 299, "0", "200", "success", "Success", "SUCCESS", "ok", "OK", "succeeded");

it("an answer of absent members, words of success and data never states an error", () => {
  const answer = fc.record(
    {
      code: success,
      status: success,
      status_code: success,
      message: success,
      msg: success,
      success: fc.constantFrom(true, "true", null, 200),
      error: fc.oneof(absent, success),
      errors: absent,
      detail: absent,
      error_code: success,
      base_resp: fc.record({ status_code: success, status_msg: fc.oneof(success, fc.constant("")) }),
      data: fc.jsonValue(),
      choices: fc.oneof(absent, fc.array(fc.record({ message: fc.record({ content: fc.string() }) }))),
      usage: fc.jsonValue(),
    },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(answer, (value) => {
      fc.pre(typeof value.data !== "object" || Array.isArray(value.data));
      expect(readStatedError(value)).toBeUndefined();
    }),
    { numRuns: runs(20_000) },
  );
});

it("random JSON is read without an exception, and a reason is a short word", () => {
  const name = fc.constantFrom(
    "error",
    "code",
    "status",
    "success",
    "data",
    "message",
    "detail",
    "choices",
    "type",
    "a",
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: "small" },
      fc.jsonValue({ maxDepth: 1 }),
      fc.constantFrom(401, 504, "failed", "error", "timeout", false),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(name, tie("value"), { maxKeys: 5 }),
    ),
  }));
  fc.assert(
    fc.property(value, (each) => {
      expect(readStatedError(each)?.reason ?? "none").toMatch(/^[a-z_]+(?:-?\d{1,9})?$/);
    }),
    { numRuns: runs(20_000) },
  );
});

it("an answer of any depth and size is read", () => {
  const deep = (depth: number) => JSON.parse(`${'{"error":'.repeat(depth)}"x"${"}".repeat(depth)}`) as unknown;
  expect(readStatedError(deep(5_000))).toMatchObject({ kind: "refused" });
  expect(readStatedError({ errors: Array.from({ length: 100_000 }, () => "x".repeat(10)) })).toMatchObject({
    reason: "gateway_error",
  });
  expect(readStatedError({ error: "timeout ".repeat(100_000) })).toMatchObject({ kind: "open" });
});
