import { completionTotal, promptTotal } from "../../core/usage.ts";
import type { Events } from "../../ports/events.ts";
import type { Family } from "./family.ts";
import { HistogramFamily } from "./histograms.ts";
import { BoundedLabel, other } from "./labels.ts";
import { modelsMax } from "./limits.ts";

/*
 * OpenTelemetry's semantic conventions for generative AI (metrics, status: development), in the names that its exporter
 * to Prometheus gives them. Their labels are long, so each line costs twice one of ours. These are some of the 14 or 16
 * bounds that the conventions advise, so other programs' measurements can be added up with these.
 */
const tokenBuckets = [256, 4_096, 65_536];
const durationBuckets = [0.32, 1.28, 5.12, 20.48];
const firstTokenBuckets = [0.1, 0.5, 2.5, 10];

/** Routes that the conventions have an operation for; others are not shown. */
const operations: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chat",
  "/v1/completions": "text_completion",
  "/v1/embeddings": "embeddings",
};

/** The conventions' name for the form of the interface, for every provider of models. */
const provider = "openai";
const common = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
const errorStatus = 400;

type HandledEvents = Pick<Events, "requestEnded" | "posted">;

/** The conventions' metrics, in addition to ours. Only ours have exemplars. */
export function genAiMetrics(): { readonly events: HandledEvents; readonly families: readonly Family[] } {
  const usage = new HistogramFamily({
    name: "gen_ai_client_token_usage",
    help: "Number of input and output tokens used by an operation.",
    labels: [...common, "gen_ai_token_type"],
    bounds: tokenBuckets,
  });
  const duration = new HistogramFamily({
    name: "gen_ai_client_operation_duration_seconds",
    help: "Duration of an operation, in seconds.",
    labels: [...common, "error_type"],
    bounds: durationBuckets,
  });
  const firstToken = new HistogramFamily({
    name: "gen_ai_server_time_to_first_token_seconds",
    help: "Time to the first token of a successful streamed answer, in seconds.",
    labels: common,
    bounds: firstTokenBuckets,
  });
  const models = new BoundedLabel(modelsMax);
  const statuses = new BoundedLabel(100);
  const labelsOf = (operation: string, model: string | null) => [
    operation,
    provider,
    model === null ? other : models.of(model),
  ];
  return {
    families: [usage, duration, firstToken],
    events: {
      requestEnded(event) {
        const operation = operations[event.route];
        // A request without a model was refused before it was an operation.
        if (operation === undefined || event.model === null) return;
        const labels = labelsOf(operation, event.model);
        const seconds = event.durationMs / 1000;
        if (event.status >= errorStatus) {
          duration.of(operation, provider, "", statuses.of(String(event.status))).observe(seconds);
          return;
        }
        duration.of(...labels, "").observe(seconds);
        if (event.stream && event.firstTokenMs !== null) firstToken.of(...labels).observe(event.firstTokenMs / 1000);
      },
      posted(event) {
        const operation = operations[event.route];
        const [input, output] = [promptTotal(event.tokens), completionTotal(event.tokens)];
        if (operation === undefined || input + output === 0) return;
        const labels = labelsOf(operation, event.model);
        usage.of(...labels, "input").observe(input);
        usage.of(...labels, "output").observe(output);
      },
    },
  };
}
