/** Examples with the counts that the OpenAI API reported, from the cookbook "How to count tokens with tiktoken". */
import { noChat } from "../../../../src/wire/prompt-text.ts";
import type { ChatText } from "../../../../src/core/prompt-text.ts";

type Message = { readonly role: string; readonly content: string; readonly name?: string };

const jargon: Message[] = [
  {
    role: "system",
    content: "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
  },
  { role: "system", name: "example_user", content: "New synergies will help drive top-line growth." },
  { role: "system", name: "example_assistant", content: "Things working well together will increase revenue." },
  {
    role: "system",
    name: "example_user",
    content: "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
  },
  {
    role: "system",
    name: "example_assistant",
    content: "Let's talk later when we're less busy about how to do better.",
  },
  {
    role: "user",
    content: "This late pivot means we don't have time to boil the ocean for the client deliverable.",
  },
];

const weather: Message[] = [
  {
    role: "system",
    content: "You are a helpful assistant that can answer to questions about the weather.",
  },
  { role: "user", content: "What's the weather like in San Francisco?" },
];

export const weatherTool = {
  type: "function",
  function: {
    name: "get_current_weather",
    description: "Get the current weather in a given location",
    parameters: {
      type: "object",
      properties: {
        location: { type: "string", description: "The city and state, e.g. San Francisco, CA" },
        unit: {
          type: "string",
          description: "The unit of temperature to return",
          enum: ["celsius", "fahrenheit"],
        },
      },
      required: ["location"],
    },
  },
};

export const publishedExamples = [
  { title: "six messages", chat: chatOf(jargon, []), tokens: { o200k_base: 124, cl100k_base: 129 } },
  {
    title: "messages with a tool",
    chat: chatOf(weather, [weatherTool]),
    tokens: { o200k_base: 101, cl100k_base: 105 },
  },
] as const;

export function chatOf(messages: readonly Message[], tools: readonly unknown[]): ChatText {
  return {
    ...noChat,
    hasSystem: messages.some(({ role }) => role === "system"),
    texts: messages.flatMap((message) => Object.values(message)),
    messages: messages.length,
    names: messages.filter((message) => message.name !== undefined).length,
    tools,
  };
}
