import { Client, type QueryResultRow } from "pg";

/** Connects to a database without Farebox, and disconnects afterwards. */
export async function withClient<T>(url: string, use: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(url);
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Runs SQL on a database without Farebox, and returns the rows. */
export async function query<R extends QueryResultRow>(url: string, sql: string, values?: unknown[]): Promise<R[]> {
  return withClient(url, async (client) => (await client.query<R>(sql, values)).rows);
}
