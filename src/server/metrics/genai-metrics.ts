import { completionTotal, promptTotal } from "../../core/usage.ts";
import type { Events } from "../../ports/events.ts";
import { BoundedLabel, HistogramFamily, modelsMax, other } from "./series.ts";

/*
 * OpenTelemetry's semantic conventions for generative AI (metrics, status: development), with the names that
 * OpenTelemetry's exporter to Prometheus uses. The labels are long, so each line is about twice as long as a line of
 * Farebox's own metrics. To keep the page small, each histogram has only some of the 14 or 16 recommended bounds. It
 * has no other bounds, so sums with other programs' histograms work.
 */
const tokenBuckets = [256, 4_096, 65_536];
const durationBuckets = [0.32, 1.28, 5.12, 20.48];
const firstTokenBuckets = [0.1, 0.5, 2.5, 10];

/** Operations of the conventions by route. These metrics ignore other routes. */
const operations: Readonly<Record<string, string>> = {
  "/v1/chat/completions": "chat",
  "/v1/completions": "text_completion",
  "/v1/embeddings": "embeddings",
};

/**
 * Name of OpenAI's API in the conventions. It applies to all models, because the gateway serves them through this API.
 */
const provider = "openai";
const common = ["gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model"];
const errorStatus = 400;

/** Creates the metrics that the conventions define. Unlike Farebox's own metrics, they have no exemplars. */
export function genAiMetrics() {
  const usage = new HistogramFamily(
    "gen_ai_client_token_usage",
    "Number of input and output tokens used by an operation.",
    [...common, "gen_ai_token_type"],
    tokenBuckets,
  );
  const duration = new HistogramFamily(
    "gen_ai_client_operation_duration_seconds",
    "Duration of an operation, in seconds.",
    [...common, "error_type"],
    durationBuckets,
  );
  const firstToken = new HistogramFamily(
    "gen_ai_server_time_to_first_token_seconds",
    "Time to the first token of a successful streamed answer, in seconds.",
    common,
    firstTokenBuckets,
  );
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
        // A request without a model was refused before it became an operation.
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
    } satisfies Partial<Events>,
  };
}
