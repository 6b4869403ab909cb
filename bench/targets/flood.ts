import { connect } from "node:net";

/* Clients of bench/refusals.ts, in a separate process. */

const body = JSON.stringify({ model: "gpt-4o-mini", max_tokens: 100, messages: [{ role: "user", content: "hello" }] });
const head = `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`;

/** Sends requests on 16 connections, with each key in turn. Every answer must be a 402. */
async function flood(port: number, keys: readonly string[], requests: number): Promise<void> {
  let sent = 0;
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const socket = connect(port, "127.0.0.1");
      let answer = "";
      const next = () => {
        if (sent >= requests) socket.end(resolve);
        else socket.write(`${head}authorization: Bearer ${keys[sent++ % keys.length]}\r\n\r\n${body}`);
      };
      socket.on("connect", next);
      socket.on("error", reject);
      socket.on("data", (bytes) => {
        answer += bytes.toString("latin1");
        const [from, length] = [answer.indexOf("\r\n\r\n"), /content-length: (\d+)/i.exec(answer)?.[1]];
        if (from < 0 || answer.length < from + 4 + Number(length)) return;
        if (!answer.startsWith("HTTP/1.1 402")) reject(new Error(answer));
        answer = "";
        next();
      });
    });
  await Promise.all(Array.from({ length: 16 }, one));
}

process.on("message", ({ port, keys, requests }: { port: number; keys: readonly string[]; requests: number }) => {
  flood(port, keys, requests).then(
    () => process.send?.("done"),
    (error: unknown) => process.send?.(String(error)),
  );
});
