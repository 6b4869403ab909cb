import { completionTotal, promptTotal } from "../core/tokens.ts";
import type { Clock } from "../ports/clock.ts";
import type { Events } from "../ports/events.ts";
import type { Family } from "./family.ts";
import { HistogramFamily } from "./histograms.ts";
import { BoundedLabel, other } from "./labels.ts";
import { modelsMax } from "./limits.ts";

/*
 * OpenTelemetry's semantic conventions for generative AI (metrics, status: development), in the names that its exporter
 * to Prometheus gives them. Buckets are those that the conventions ask for.
 */
const tokenBuckets = Array.from({ length: 14 }, (_, power) => 4 ** power);
const durationBuckets = Array.from({ length: 14 }, (_, step) => 0.01 * 2 ** step);
const firstTokenBuckets = [0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** Routes that the conventions have an operation for; others are not shown. */
const operations: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chat",
  "/v1/completions": "text_completion",
  "/v1/embeddings": "embeddings",
};

/** The conventions' name for the form of the interface, whoever serves the model behind it. */
const provider = "openai";
const common = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
const errorStatus = 400;

type Heard = Pick<Events, "requestEnded" | "posted">;

/** The conventions' metrics, beside ours. */
export function genAiMetrics(clock: Clock): { readonly heard: Heard; readonly families: readonly Family[] } {
  const usage = new HistogramFamily({ name: "gen_ai_client_token_usage", help: "Number of input and output tokens used by an operation.", labels: [...common, "gen_ai_token_type"], bounds: tokenBuckets });
  const duration = new HistogramFamily({ name: "gen_ai_client_operation_duration_seconds", help: "Duration of an operation, in seconds.", labels: [...common, "error_type"], bounds: durationBuckets });
  const firstToken = new HistogramFamily({ name: "gen_ai_server_time_to_first_token_seconds", help: "Time to the first token of a successful streamed answer, in seconds.", labels: common, bounds: firstTokenBuckets });
  const models = new BoundedLabel(modelsMax);
  const statuses = new BoundedLabel(100);
  const labelsOf = (operation: string, model: string | null) => [operation, provider, model === null ? other : models.of(model)];
  return {
    families: [usage, duration, firstToken],
    heard: {
      requestEnded(event) {
        const operation = operations[event.route];
        // A request without a model was refused before it was an operation.
        if (operation === undefined || event.model === null) return;
        const labels = labelsOf(operation, event.model);
        const from = { requestId: event.id, at: clock.now() };
        const failed = event.status >= errorStatus;
        duration.of(...labels, failed ? statuses.of(String(event.status)) : "").observe(event.durationMs / 1000, from);
        if (event.stream && !failed && event.firstTokenMs !== null) firstToken.of(...labels).observe(event.firstTokenMs / 1000, from);
      },
      posted(event) {
        const operation = operations[event.route];
        const [input, output] = [promptTotal(event.tokens), completionTotal(event.tokens)];
        if (operation === undefined || input + output === 0) return;
        const from = { requestId: event.id, at: clock.now() };
        const labels = labelsOf(operation, event.model);
        usage.of(...labels, "input").observe(input, from);
        usage.of(...labels, "output").observe(output, from);
      },
    },
  };
}
