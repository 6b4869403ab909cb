import { h, render } from "preact";
import { App } from "./app.ts";
import { listenToPage } from "./page-events.ts";
import { applyTheme } from "./theme.ts";

applyTheme();
listenToPage();
const container = document.getElementById("app");
if (container !== null) render(h(App, null), container);
