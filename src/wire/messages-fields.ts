import { RequestFields } from "./findings.ts";
import {
  all,
  cacheControl,
  expensive,
  free,
  headerValues,
  kinds,
  ratedFields,
  routing,
  type HeaderTable,
} from "./field-table.ts";

/** Lists the fields of requests to Anthropic's Messages API that Farebox knows, with their meanings. */

const file = expensive("the request does not show how long the file is");
const atGateway = expensive("it runs tools at the gateway");

/** Thinking is a part of `max_tokens`, so it has no cost of its own. */
export const messagesFields = new RequestFields({
  ...routing,
  ...ratedFields,
  ...all("priced", "model messages stream max_tokens tools system context_management"),
  ...free("metadata output_config safeguards stop_sequences temperature thinking tool_choice top_k top_p"),
  thread: expensive("a stored thread becomes a part of the prompt"),
}).repeatingIn(new Map([["tools", new Map([["input_schema", "free"]])]]));

/** Members of a message. */
export const messagesMembers = new RequestFields({
  ...free("content output_config role"),
  cache_control: cacheControl,
});

/** Members of `context_management`. Each edit that only clears a part of the prompt is free. */
export const contextMembers = new RequestFields(all("priced", "edits"));
export const clearingEdit = /^clear_\w{1,60}$/;

const cached = { cache_control: cacheControl };
/** Result of a tool of the gateway in an earlier answer. Its content has blocks of `messagesBlocks`. */
const result = { ...free("tool_use_id content is_error caller"), ...cached };
const failure = free("error_code error_message");

/** Source of an image or a document. */
export const sources = kinds({
  text: free("media_type data"),
  base64: free("media_type data"),
  content: free("content"),
  url: free("url"),
  file: { file_id: file },
});

/** Content blocks of messages, of the system prompt and of tool results. */
export const messagesBlocks = kinds({
  text: { ...free("text citations"), ...cached },
  image: { ...free("source"), ...cached },
  document: { ...free("source title context citations"), ...cached },
  search_result: { ...free("source title content citations"), ...cached },
  thinking: free("thinking signature"),
  redacted_thinking: free("data"),
  tool_use: { ...free("id name input caller"), ...cached },
  tool_result: result,
  tool_reference: { ...free("tool_name"), ...cached },
  server_tool_use: { ...free("id name input caller"), ...cached },
  mcp_tool_use: { ...free("id name input server_name"), ...cached },
  mcp_tool_result: result,
  compaction: { ...free("content encrypted_content"), ...cached },
  container_upload: { file_id: atGateway, ...cached },
  web_search_tool_result: result,
  web_search_result: free("url title page_age encrypted_content"),
  web_search_tool_result_error: failure,
  web_fetch_tool_result: result,
  web_fetch_result: free("url content retrieved_at"),
  web_fetch_tool_result_error: failure,
  tool_search_tool_result: result,
  tool_search_tool_search_result: free("tool_references"),
  tool_search_tool_result_error: failure,
  advisor_tool_result: result,
  advisor_result: free("text"),
  advisor_redacted_result: free("encrypted_content"),
  advisor_tool_result_error: failure,
  code_execution_tool_result: result,
  code_execution_result: free("stdout stderr return_code content"),
  encrypted_code_execution_result: free("encrypted_stdout stderr return_code content"),
  code_execution_tool_result_error: failure,
  bash_code_execution_tool_result: result,
  bash_code_execution_result: free("stdout stderr return_code content"),
  bash_code_execution_tool_result_error: failure,
  text_editor_code_execution_tool_result: result,
  text_editor_code_execution_view_result: free("content file_type num_lines start_line total_lines"),
  text_editor_code_execution_create_result: free("is_file_update"),
  text_editor_code_execution_str_replace_result: free("lines new_lines new_start old_lines old_start"),
  text_editor_code_execution_tool_result_error: failure,
});

/** Types of tools that run at the client, without their dates. A tool without a type is `custom`. */
export const toolsOfClients: ReadonlySet<string> = new Set(["custom", "bash", "text_editor", "computer", "memory"]);

const limitedTool = {
  ...free("type name allowed_callers allowed_domains blocked_domains defer_loading strict user_location"),
  ...all("priced", "max_uses"),
  ...cached,
};
/** Tools of the gateway whose calls the request can limit (`max_uses`), by their type without its date. */
export const limitedTools: ReadonlyMap<string, RequestFields> = new Map([
  ["web_search", new RequestFields(limitedTool)],
  ["web_fetch", new RequestFields({ ...limitedTool, ...all("priced", "max_content_tokens"), ...free("citations") })],
]);

/** The members of a request show which features it uses, so no beta has a cost but one for a longer output. */
export const messagesHeaders: HeaderTable = new Map([
  ...headerValues,
  [
    "anthropic-beta",
    {
      free: [/^(?!output-\d)/],
      expensive: [[/^output-\d/, "the output may be longer than the catalogue states"] as const],
    },
  ],
]);
