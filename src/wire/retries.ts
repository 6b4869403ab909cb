const retriesMax = 1000;

/**
 * Reads `x-stainless-retry-count`, in which the SDKs of OpenAI and Anthropic count how often they have sent a request
 * before: 0 for a first try, and for whatever is not a whole number up to 1000.
 */
export function readRetry(header: string | undefined): number {
  if (header === undefined || !/^\d{1,4}$/.test(header)) return 0;
  const retry = Number(header);
  return retry > retriesMax ? 0 : retry;
}
