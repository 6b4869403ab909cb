import { describe, expect, it } from "vitest";
import { isAccepted, readCreatedTasks, readCreationError } from "../../../src/wire/created-tasks.ts";
import { isTaskId, readPolledRecord, readTaskRecord, tasksNamed } from "../../../src/wire/task.ts";
import { readTaskRequest } from "../../../src/wire/task-request.ts";
import { finalStatusOf } from "../../../src/core/tasks.ts";
import { conversationRecord, musicRecord, record, videoRecord } from "../../support/task-records.ts";

const at = (iso: string) => Date.parse(iso);

describe("a task's record", () => {
  it("is read in the unified form and the envelope form, with exact numbers", () => {
    expect(readTaskRecord(videoRecord)).toEqual({
      taskId: "vid-1",
      status: "completed",
      startedAt: at("2026-11-20T12:00:01.5Z"),
      endedAt: at("2026-11-20T12:01:02.000Z"),
      consumption: { type: "llm", units: "2600000.5" },
      hasError: false,
      errors: [],
      isPrivatePool: false,
    });
    expect(readTaskRecord(Buffer.from(musicRecord))).toMatchObject({
      taskId: "music-1",
      status: "completed",
      consumption: { type: "", units: "120000" },
      hasError: false,
    });
    expect(readTaskRecord(conversationRecord)).toEqual({
      taskId: "conv-1",
      status: "completed",
      startedAt: at("2026-11-20T12:00:00Z"),
      endedAt: at("2026-11-20T12:00:09Z"),
      consumption: { type: "used_credits", units: "0.1000000000000000055" },
      hasError: false,
      errors: [],
      isPrivatePool: false,
    });
  });

  it.each([
    ["Pending", "pending"],
    ["Staged", "pending"],
    ["PROCESSING", "running"],
    ["running", "running"],
    ["in progress", "running"],
    ["Completed", "completed"],
    ["SUCCESS", "completed"],
    ["Failed", "failed"],
    ["canceled", "cancelled"],
    ["Cancelled", "cancelled"],
    ["hatching", "unknown"],
    ["constructor", "unknown"],
  ])("with the status %s is %s", (word, status) => {
    expect(readTaskRecord(record("t", word))?.status).toBe(status);
  });

  it("has no start and no end if these are the zero time", () => {
    expect(readTaskRecord(record("t", "pending"))).toMatchObject({ startedAt: null, endedAt: null });
  });

  it("with an unknown status is final only if it states an end", () => {
    expect(finalStatusOf({ ...known("hatching"), endedAt: 5 })).toBe("completed");
    expect(finalStatusOf({ ...known("hatching"), endedAt: 5, hasError: true })).toBe("failed");
    expect(finalStatusOf(known("hatching"))).toBeNull();
    expect(finalStatusOf({ ...known("pending"), endedAt: 5 })).toBeNull();
  });

  it("states its errors in either form", () => {
    const failed = record("t", "Failed", {
      error: { code: 10000, raw_message: "raw", message: "said", detail: { message: "more" } },
    });
    expect(readTaskRecord(failed)).toMatchObject({ status: "failed", hasError: true, errors: ["said", "raw", "more"] });
    expect(readTaskRecord(record("t", "failed", { error: { code: 7, message: "" } }))).toMatchObject({
      hasError: true,
      errors: [],
    });
    expect(
      readTaskRecord(
        '{"code":200,"data":{"task_id":"t","status":"failed","task_result":{"error_messages":["no",3,""]}}}',
      ),
    ).toMatchObject({ hasError: true, errors: ["no"] });
  });

  it("has empty fields if an object states no valid values, and is missing if the body is no object", () => {
    const nothing = {
      taskId: null,
      status: "unknown",
      startedAt: null,
      endedAt: null,
      consumption: null,
      hasError: false,
      errors: [],
      isPrivatePool: false,
    };
    for (const text of [
      "{}",
      '{"data":null}',
      '{"data":[]}',
      '{"data":{"task_id":{},"status":4,"meta":"x","error":7,"task_result":null}}',
    ]) {
      expect(readTaskRecord(text), text).toEqual(nothing);
    }
    expect(readTaskRecord('{"task_id":12345678901234567890,"status":"pending"}')).toMatchObject({
      taskId: "12345678901234567890",
    });
    for (const text of ["", "[]", "<html>", "7", "null"]) expect(readTaskRecord(text), text).toBeUndefined();
    const usages = [{ type: "llm", consume: -3 }, { type: "llm", consume: "many" }, { consume: null }, {}];
    for (const usage of usages)
      expect(readTaskRecord(record("t", "completed", { usage }))?.consumption, JSON.stringify(usage)).toBeNull();
    expect(
      readTaskRecord(record("t", "completed", { usage: { type: " LLM ", consume: "1.50" } }))?.consumption,
    ).toEqual({ type: "llm", units: "1.5" });
  });

  it.each([
    ['{"code":0,"message":"","raw_message":"","detail":null}', false],
    ['{"code":200,"message":"success"}', false],
    ['{"code":"ok","message":"Success"}', false],
    ['{"code":0.0}', false],
    ['{"code":0,"message":"no"}', true],
    ['{"code":1.5}', true],
    ['{"code":"E1"}', true],
    ['"no"', true],
  ])("has an error or not: %s", (error, hasError) => {
    expect(readTaskRecord(`{"task_id":"t","error":${error}}`)).toMatchObject({ hasError });
  });

  it("has an id that is valid in a path", () => {
    const valid = ["a", "9f8b-1", "x".repeat(200)];
    expect(valid.filter(isTaskId)).toEqual(valid);
    expect(["", "a/b", "..", ".", "a?b", "a#b", "a%2fb", "a b", "é", "x".repeat(201)].filter(isTaskId)).toEqual([]);
  });
});

describe("a creation's answer with a success status", () => {
  it.each<[string, string | undefined]>([
    ['{"code":10001,"data":null}', "refused gateway_10001"],
    ['{"code":"10001","data":{},"message":"no"}', "refused gateway_10001"],
    ['{"code":-1,"message":"no"}', "refused gateway_-1"],
    ['{"code":403,"data":{"id":7}}', "refused gateway_403"],
    ['{"data":null,"message":"insufficient credits"}', "refused upstream_no_credit"],
    ['{"success":false,"data":null}', "refused gateway_error"],
    ['{"error":{"message":"no","code":"invalid_model"}}', "refused gateway_error"],
    ['{"detail":"no"}', "refused gateway_error"],
    ['{"task_id":"","status":"failed","message":"no"}', "refused gateway_error"],
    ['{"task_id":"","status":"canceled"}', "refused gateway_error"],
    [
      '{"data":{"task_id":"","status":"failed","input":{"prompt":"a"},"meta":{"usage":{"consume":0}}}}',
      "refused gateway_error",
    ],
    ['{"code":200,"data":{"task_id":"","status":"Failed","error":{"code":5,"message":"no"}}}', "refused gateway_5"],
    // The service behind the gateway may have created a task.
    ['{"code":408,"data":null}', "open gateway_408"],
    ['{"code":10000,"data":null,"message":"request timeout"}', "open network"],
    ['{"task_id":"","status":"timeout"}', "open network"],
    // An answer that may have created a task states no error.
    ['{"code":10001,"data":{"task_id":"t-1"}}', undefined],
    ['{"error":"x","data":{"task_id":"t-1"}}', undefined],
    ['{"code":500,"data":{"task_id":"t-1"}}', undefined],
    ['{"code":10001,"data":[{"task_id":"t-1"}]}', undefined],
    ['{"code":10001,"data":{"id":"t-1"}}', undefined],
    ['{"code":10001,"data":"t-1"}', undefined],
    ['{"task_id":"","status":"failed","task_result":{"used_credits":0.5}}', undefined],
    ['{"code":500,"task_result":{"used_credits":0.5}}', undefined],
    ['{"code":200,"data":null}', undefined],
    ['{"code":0,"data":null}', undefined],
    ['{"code":1.5,"data":null}', undefined],
    ['{"data":null}', undefined],
    ["[]", undefined],
    ["<", undefined],
  ])("is an error or not: %s", (text, expected) => {
    const error = readCreationError(Buffer.from(text));
    expect(error && `${error.kind} ${error.reason}`).toBe(expected);
  });
});

describe("the tasks that a creation's answer names", () => {
  it.each<[string, string, string]>([
    ['{"id":"r-1","data":{"task_id":"t-1","id":7},"request_id":"q"}', "task", "t-1"],
    ['{"data":{"id":"t-1"},"id":"r-1"}', "id", "t-1"],
    ['{"task_id":"t-1","data":[{"id":"track-1"},{"id":"track-2"}]}', "task", "t-1"],
    ['{"task_id":"t-1","output":[{"task_id":"t-9"}],"input":{"task_id":"t-8"},"origin_task_id":"t-7"}', "task", "t-1"],
    ['{"task":"txt2img","id":"t-1"}', "id", "t-1"],
    ['{"task":{"id":"t-1"},"id":"r-1"}', "task", "t-1"],
    ['{"jobs":[{"uuid":"t-1"},{"uuid":"t-2"}]}', "task", "t-1 t-2"],
    ['{"result":"0f9c1b1e-6f8c-4a53-8f0e-0d2e7a1c9b11"}', "text", "0f9c1b1e-6f8c-4a53-8f0e-0d2e7a1c9b11"],
    ['{"result":171081604985}', "text", "171081604985"],
    ['{"request_id":"q","status":"queued"}', "id", "q"],
    ['{"TaskID":"t-1"}', "task", "t-1"],
    // Two ids in one record are of one task.
    ['{"job_id":"j-1","task_id":"t-1","generation_id":"g-1"}', "task", "t-1"],
    ['{"jobId":"j-1","generation_id":"g-1"}', "task", "j-1"],
    ['{"job_id":"j-1","task_ids":["t-1","t-2"]}', "task", "j-1 t-1 t-2"],
    ['{"video_id":"v-1","id":"t-1"}', "id", "t-1"],
    ['{"output":{"task_id":"t-1","id":"o-1"},"id":"r-1"}', "task", "t-1"],
    ['{"output":{"id":"o-1"},"id":"t-1"}', "id", "t-1"],
    // Words, numbers, times and addresses are no ids.
    ['{"result":"queued"}', "task", ""],
    ['{"data":12.5}', "task", ""],
    ['{"data":"2026-11-20T12:00:00Z"}', "task", ""],
    ['{"result":"https://a/b-1.png"}', "task", ""],
    ['{"id":1.5,"data":true}', "task", ""],
    ['{"request_id":"q","message":"accepted"}', "task", ""],
    ['{"task_id":"a/b"}', "task", ""],
    ["7", "task", ""],
    ["<html>", "task", ""],
  ])("are read from %s by a %s: %s", (text, by, ids) => {
    const { tasks, idKind: found } = readCreatedTasks(Buffer.from(text));
    expect([found, tasks.map(({ taskId }) => taskId).join(" ")]).toEqual([by, ids]);
  });

  it("are read from an answer of any depth", () => {
    expect(readCreatedTasks(Buffer.from(`${"[".repeat(5_000)}${"]".repeat(5_000)}`)).tasks).toEqual([]);
    const deep = Buffer.from(`${'{"code":7,"response":'.repeat(20_000)}{}${"}".repeat(20_000)}`);
    expect([readCreationError(deep), isAccepted(deep)]).toEqual([undefined, false]);
  });
});

describe("the answer to a poll", () => {
  it.each([
    ['{"code":500,"data":null}', "no record"],
    ['{"status":"error","message":"no"}', "no record"],
    ['{"status":"failed"}', "no record"],
    ['{"error":{"code":429,"message":"no"}}', "no record"],
    ['{"detail":"no"}', "no record"],
    ['{"success":false,"data":{"status":"failed"}}', "no record"],
    ["<html>", "no record"],
    ['{"task_id":"t","status":"failed","error":{"code":5}}', "failed"],
    ['{"code":500,"data":{"task_id":"t","status":"failed"}}', "failed"],
    ['{"code":200,"data":{"status":"failed"}}', "failed"],
    ['{"status":"running"}', "running"],
    ['{"code":200,"data":null}', "unknown"],
    // The gateway does not know the task, so it says nothing about it.
    ['{"data":{"status":"failed","error":{"message":"task not found"}}}', "no record"],
    ['{"task_id":"t","status":"failed","error":{"message":"Task t-1 does not exist"}}', "no record"],
    ['{"task_id":"t","status":"failed","error":"no such task"}', "no record"],
    ['{"task_id":"t","status":"failed","error":{"message":"task failed: the image was not found"}}', "failed"],
    ['{"task_id":"t","status":"failed","error":{"message":"origin task not found"}}', "failed"],
  ])("%s has the status: %s", (text, expected) => {
    expect(readPolledRecord(Buffer.from(text))?.status ?? "no record").toBe(expected);
  });
});

function known(word: string) {
  const read = readTaskRecord(record("t", word));
  if (read === undefined) throw new Error("no record");
  return read;
}

/** Returns the refusal of a body with a member that is given twice. */
function twice(path: string, members: string): [string, string, string][] {
  return [[`{"model":"m",${members}}`, path, `'${path}' is given twice`]];
}

describe("a task's creation", () => {
  const stated = (input: string, field = "duration") => {
    const read = readTaskRequest(Buffer.from(`{"model":"m","input":${input}}`));
    return read.ok ? read.request.stated(field).join() : read.refusal.code;
  };

  it.each([
    ['{"duration":5}', "5"],
    ['{"duration":"7.50"}', "7.5"],
    ['{"duration":null}', "absent"],
    ["{}", "absent"],
    ["null", "absent"],
    ["[]", "absent"],
    ['{"duration":"long"}', "unclear"],
    ['{"duration":-5}', "unclear"],
    ['{"duration":0}', "unclear"],
    ['{"duration":true}', "unclear"],
    ['{"Duration":9}', "unclear"],
    ['{"duration":{"a":5}}', "unclear"],
    ['[{"duration":5},{"duration":9}]', "5,9"],
    ['[{"duration":5}, {}, null, "x"]', "5,absent,absent,absent"],
    ['[{"DURATION":9}]', "unclear"],
    ["[[]]", "unclear"],
    [`[${"{},".repeat(1000)}{}]`, "unclear"],
    ['{"duration":1,"DURATION":9}', "unclear"],
  ])("with the input %s states %s", (input, quantity) => {
    expect(stated(input)).toBe(quantity);
  });

  it("states an unclear amount if a field's name is in another letter case, also with the long s or the Kelvin sign", () => {
    expect(stated('{"\u017feconds":9}', "seconds")).toBe("unclear");
    expect(stated('{"seconds":1,"\\u017fECONDS":9}', "seconds")).toBe("unclear");
    expect(stated('{"\u212aeyframes":9}', "keyframes")).toBe("unclear");
  });

  it.each([
    ['{"model":"m","task_type":"a","ta\u017fk_type":"b"}', "task_type", "'ta\u017fk_type' must be written 'task_type'"],
    ['{"model":"m","ta\u017fk_type":"b"}', "task_type", "'ta\u017fk_type' must be written 'task_type'"],
    ['{"model":"m","ta\\u017fk_type":"b"}', "task_type", "'ta\u017fk_type' must be written 'task_type'"],
    ['{"model":"m","MODEL":"n"}', "model", "'MODEL' must be written 'model'"],
    ['{"model":"m","input":{},"input":{"duration":9}}', "input", "'input' is given twice"],
    ['{"model":"m","INPUT":{"duration":9}}', "input", "'INPUT' must be written 'input'"],
    ['{"model":"m","Config":{}}', "config", "'Config' must be written 'config'"],
    [
      '{"model":"m","config":{"\u017fervice_mode":"private"}}',
      "service_mode",
      "'\u017fervice_mode' must be written 'service_mode'",
    ],
    ...twice("config.service_mode", '"config":{"service_mode":"a","service_mode":"b"}'),
    ...twice("input.duration", '"input":{"duration":5,"duration":9}'),
    ...twice("input.fps", '"input":[{"fps":5},{"fps":5,"f\\u0070s":9}]'),
    ...twice("input.camera.mode", '"input":{"camera":{"mode":"std","mode":"pro"}}'),
    ...twice("config.webhook_config", '"config":{"webhook_config":{},"webhook_config":{}}'),
    ...twice("config.webhook_config.endpoint", '"config":{"webhook_config":{"endpoint":"a","endpoint":"b"}}'),
    ...twice("wonder", '"wonder":1,"wonder":2'),
  ])("refuses %s", (body, param, message) => {
    expect(readTaskRequest(Buffer.from(body))).toEqual({
      ok: false,
      refusal: { code: "invalid_request", param, message },
    });
  });
});

describe("the task ids of an answer", () => {
  it.each([..."task_id"].map((letter, index) => [letter, index] as const))(
    "are found if the %s of task_id is escaped",
    (letter, index) => {
      const code = letter.charCodeAt(0).toString(16).padStart(4, "0");
      for (const escape of [`\\u${code}`, `\\u${code.toUpperCase()}`]) {
        const name = `${"task_id".slice(0, index)}${escape}${"task_id".slice(index + 1)}`;
        expect(tasksNamed(Buffer.from(`{"data":{"${name}":"t-1"}}`))).toEqual(new Set(["t-1"]));
      }
    },
  );
});
