import { h, render } from "preact";
import { App } from "./app.ts";
import { applyTheme } from "./theme.ts";

applyTheme();
const place = document.getElementById("app");
if (place !== null) render(h(App, null), place);
