/** Admin token of the Farebox processes that the benchmarks start. */
export const adminToken = "admin-token-of-the-benchmark";

/** Calls the admin API of a Farebox on this machine. Throws an error for any status other than 2xx. */
export async function admin(
  port: number,
  method: string,
  path: string,
  body?: object,
): Promise<Readonly<Record<string, unknown>>> {
  const answer = await fetch(`http://127.0.0.1:${port}/admin/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${adminToken}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(20_000),
  });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`${method} ${path} returned status ${answer.status}: ${text}`);
  return JSON.parse(text) as Readonly<Record<string, unknown>>;
}
