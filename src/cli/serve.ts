import { command } from "./command.ts";

export const commands = [
  command("serve", {
    settings: "all",
    needs: ["gateway_url", "gateway_api_key"],
    examples: ["FAREBOX_GATEWAY_API_KEY_FILE=gateway.key farebox serve --gateway-url https://gateway.example"],
    run: ({ serve, settings, io }) => serve(settings, io),
  }),
];
