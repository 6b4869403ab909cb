# Node's version is the one that package.json pins for a checkout. The tag names it and the Debian release exactly. No
# digest stands here, since none could be read from the registry when this was written; to pin the very bytes, append the
# one that `docker buildx imagetools inspect node:24.21.0-trixie-slim` prints.
FROM node:24.21.0-trixie-slim AS base
WORKDIR /app
COPY package.json package-lock.json ./

FROM base AS dependencies
RUN npm ci --omit=dev --ignore-scripts

FROM base AS build
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY src src
RUN node scripts/build.ts

FROM base
# /data is the only place that is written to. The link gives `docker exec` the command: farebox keys create alice.
RUN mkdir --mode=700 /data && chown node:node /data && ln -s /app/bin/farebox.mjs /usr/local/bin/farebox
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY bin bin
COPY pricing pricing
COPY LICENSE ./

# A container starts once, so a cache of compiled code would only be written. SQLite sorts what is large beside the ledger.
ENV NODE_ENV=production \
    NODE_DISABLE_COMPILE_CACHE=1 \
    SQLITE_TMPDIR=/data \
    FAREBOX_HOST=0.0.0.0 \
    FAREBOX_DATABASE=/data/farebox.db

# The user `node` of the base image, by number: Kubernetes can tell then that it is not root.
USER 1000:1000
VOLUME /data
EXPOSE 4000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.FAREBOX_PORT || 4000) + '/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]

# Node itself is process 1 and hears SIGTERM: running requests end within FAREBOX_DRAIN.
ENTRYPOINT ["node", "/app/bin/farebox.mjs"]
CMD ["serve"]
