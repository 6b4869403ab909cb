import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  readWebhookConfig,
  withWebhookConfig,
  withWebhookHidden,
  withWebhookShown,
  type WebhookConfig,
} from "../../../src/wire/webhook-config.ts";

const ours: WebhookConfig = {
  endpoint: `https://farebox.example/v1/farebox/callbacks/${"ab".repeat(32)}`,
  secret: "cd".repeat(32),
};
const theirs: WebhookConfig = { endpoint: "https://client.example/hook?id=1", secret: 'quotes " and \\ ü' };

const put = (body: string, config = ours) => withWebhookConfig(Buffer.from(body), config).toString();
const read = (body: string) => readWebhookConfig(Buffer.from(body));

describe("readWebhookConfig", () => {
  it.each([
    ['{"model":"kling"}', "", ""],
    ['{"config":null}', "", ""],
    ['{"config":{"service_mode":"public"}}', "", ""],
    ['{"config":{"webhook_config":{"endpoint":"","secret":null}}}', "", ""],
    ['{"config":{"webhook_config":{"endpoint":"https:\\/\\/c.example","secret":"s"}}}', "https://c.example", "s"],
  ])("reads %s", (body, endpoint, secret) => expect(read(body)).toEqual({ ok: true, config: { endpoint, secret } }));

  it.each([
    ['{"config":[]}', "config", "'config' must be an object"],
    ['{"config":{},"config":{}}', "config", "'config' is given twice"],
    ['{"Config":{}}', "config", "'Config' must be written 'config'"],
    ['{"config":{"webhook_config":"x"}}', "config.webhook_config", "'config.webhook_config' must be an object"],
    [
      '{"config":{"webhook_config":{},"WEBHOOK_CONFIG":{}}}',
      "config.webhook_config",
      "'config.webhook_config' is given twice",
    ],
    [
      '{"config":{"webhook_config":{"endpoint":5}}}',
      "config.webhook_config.endpoint",
      "'config.webhook_config.endpoint' must be a text of at most 2048 characters on one line",
    ],
    [
      '{"config":{"webhook_config":{"secret":"a\\r\\nx: y"}}}',
      "config.webhook_config.secret",
      "'config.webhook_config.secret' must be a text of at most 2048 characters on one line",
    ],
    [
      '{"config":{"webhoo\u212a_config":{}}}',
      "config.webhook_config",
      "'webhoo\u212a_config' must be written 'webhook_config'",
    ],
    [
      '{"config":{"webhook_config":{"Endpoint":"https://c.example"}}}',
      "config.webhook_config.endpoint",
      "'Endpoint' must be written 'endpoint'",
    ],
  ])("refuses %s", (body, param, message) =>
    expect(read(body)).toEqual({ ok: false, refusal: { code: "invalid_request", param, message } }),
  );
});

describe("withWebhookConfig", () => {
  const config = `{"endpoint":"${ours.endpoint}","secret":"${ours.secret}"}`;

  it.each([
    [
      '{ "model" : "kling" , "input":{"n":1.50} }',
      `{"config":{"webhook_config":${config}}, "model" : "kling" , "input":{"n":1.50} }`,
    ],
    ["{}", `{"config":{"webhook_config":${config}}}`],
    ['{"config":null,"x":1}', `{"config":{"webhook_config":${config}},"x":1}`],
    ['{"config":{"service_mode":"public" } }', `{"config":{"webhook_config":${config},"service_mode":"public" } }`],
    ['{"config": { "webhook_config" : null , "a":1}}', `{"config": { "webhook_config" : ${config} , "a":1}}`],
    [
      '{"config":{"webhook_config":{ "secret" : "s" , "more":[1, 2] , "endpoint":"https://c.example" }}}',
      `{"config":{"webhook_config":{ "secret" : "${ours.secret}" , "more":[1, 2] , "endpoint":"${ours.endpoint}" }}}`,
    ],
  ])("adds the webhook to %s", (body, expected) => expect(put(body)).toBe(expected));

  it("changes only the webhook of any valid creation, and readWebhookConfig returns the new one", () => {
    const webhook = fc.oneof(
      fc.constant(null),
      fc.record({ endpoint: fc.webUrl(), secret: fc.string(), more: fc.jsonValue() }, { requiredKeys: [] }),
    );
    const body = fc.record(
      {
        model: fc.string(),
        input: fc.jsonValue(),
        config: fc.oneof(
          fc.constant(null),
          fc.record({ service_mode: fc.string(), webhook_config: webhook }, { requiredKeys: [] }),
        ),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(body, fc.constantFrom(undefined, 2), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        fc.pre(read(text).ok);
        const result = put(text);
        expect(read(result)).toEqual({ ok: true, config: ours });
        const before = JSON.parse(text);
        const after = JSON.parse(result);
        expect(after).toEqual({
          ...before,
          config: { ...before.config, webhook_config: { ...before.config?.webhook_config, ...ours } },
        });
      }),
    );
  });
});

describe("withWebhookShown", () => {
  const shown = (text: string, to = theirs) => withWebhookShown(Buffer.from(text), ours, to).toString();

  it("replaces our webhook with the client's everywhere, and keeps every other value", () => {
    const text = `{"n": 1.50, "config":{"webhook_config":{"endpoint":"${ours.endpoint.replaceAll("/", "\\/")}","secret":"${ours.secret}"}},"logs":["told ${ours.endpoint} \\u00fc"]}`;
    expect(shown(text)).toBe(
      `{"n": 1.50, "config":{"webhook_config":{"endpoint":"${theirs.endpoint}","secret":${JSON.stringify(theirs.secret)}}},"logs":["told ${theirs.endpoint} ü"]}`,
    );
  });

  it("shows empty values, like the gateway, if the client stated no webhook", () => {
    expect(shown(put("{}"), { endpoint: "", secret: "" })).toBe(
      '{"config":{"webhook_config":{"endpoint":"","secret":""}}}',
    );
  });

  it("inserts a replacement literally, including $ patterns", () => {
    expect(shown(JSON.stringify({ secret: ours.secret }), { endpoint: "", secret: "$& $1 $$" })).toBe(
      '{"secret":"$& $1 $$"}',
    );
  });

  it("returns the same bytes if our webhook does not appear", () => {
    const bytes = Buffer.from('{"config":{"webhook_config":{"endpoint":"https://c.example","secret":"x"}}}');
    expect(withWebhookShown(bytes, ours, theirs)).toBe(bytes);
    const page = Buffer.from('<html>"</html>');
    expect(withWebhookShown(page, ours, theirs)).toBe(page);
  });
});

it("withWebhookHidden hides the whole webhook config", () => {
  expect(withWebhookHidden(Buffer.from(put('{"a":1}')), "<hidden>").toString()).toBe(
    '{"config":{"webhook_config":"<hidden>"},"a":1}',
  );
});
