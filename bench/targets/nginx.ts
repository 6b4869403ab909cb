import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../../test/support/free-port.ts";
import { startProgram } from "./other-program.ts";
import { runProcess } from "./process.ts";

/**
 * nginx as a reverse proxy with one worker, keep-alive on both sides, and no log. It does not buffer answers, as its
 * documentation advises for streams. Request bodies stay in memory.
 */
await runProcess(async ({ gatewayUrl, gatewayKey, folder, program }) => {
  const port = await freePort();
  const file = join(folder, "nginx.conf");
  writeFileSync(
    file,
    `worker_processes 1;
daemon off;
pid ${folder}/nginx.pid;
error_log stderr crit;
events { worker_connections 8192; }
http {
  access_log off;
  keepalive_requests 10000000;
  client_max_body_size 32m;
  client_body_buffer_size 1m;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  upstream gateway {
    server ${new URL(gatewayUrl).host};
    keepalive 1024;
    keepalive_requests 10000000;
  }
  server {
    listen 127.0.0.1:${port} backlog=4096;
    location / {
      proxy_pass http://gateway;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`,
  );
  return startProgram({
    command: program,
    args: ["-e", "stderr", "-c", file, "-p", folder],
    folder,
    port,
    key: gatewayKey,
  });
});
