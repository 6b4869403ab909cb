# package.json pins the same version of Node for a checkout. The digest of the multi-platform index selects the image; the tag is only
# for readers. After updates of Debian, `docker buildx imagetools inspect node:24.21.0-trixie-slim` prints a newer digest.
FROM node:24.21.0-trixie-slim@sha256:173f125896c3b47ddf056734c7ea789d04595a6a08769a8f78e0df642781fb66 AS base
WORKDIR /app
COPY package.json package-lock.json ./

FROM base AS dependencies
RUN npm ci --omit=dev --ignore-scripts

FROM base AS build
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY scripts scripts
COPY pricing pricing
COPY src src
RUN node scripts/build.ts

FROM base
# Only /data is writable. The link lets `docker exec` find the command: farebox keys create alice.
RUN mkdir --mode=700 /data && chown node:node /data && ln -s /app/bin/farebox.mjs /usr/local/bin/farebox
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY bin bin
COPY pricing pricing
COPY LICENSE ./

# A container starts once, so a cache of compiled code would never be read. SQLite sorts large data in the ledger's folder.
ENV NODE_ENV=production \
    NODE_DISABLE_COMPILE_CACHE=1 \
    SQLITE_TMPDIR=/data \
    FAREBOX_HOST=0.0.0.0 \
    FAREBOX_DATABASE=/data/farebox.db

# User `node` of the base image. Kubernetes can check only a number for not being root.
USER 1000:1000
VOLUME /data
EXPOSE 4000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.FAREBOX_PORT || 4000) + '/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]

# Node itself is process 1 and receives SIGTERM, so requests in flight can end within FAREBOX_DRAIN.
ENTRYPOINT ["node", "/app/bin/farebox.mjs"]
CMD ["serve"]
