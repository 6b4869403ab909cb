import { describeIdleConnections } from "../../support/idle-connections.ts";

describeIdleConnections("http-proxy-middleware");
describeIdleConnections("undici");
