/** Registers the event listeners of the whole page. */
export function listenToPage(): void {
  document.addEventListener("keydown", focusSearch);
  document.addEventListener("copy", copyExactAmounts);
}

/** Moves the focus to the search field of the page when the user presses "/" outside a field. */
function focusSearch(event: KeyboardEvent): void {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  const isTyping = (event.target as HTMLElement).closest("input, select, textarea, dialog") !== null;
  const field = document.querySelector<HTMLInputElement>('main input[type="search"]');
  if (isTyping || field === null) return;
  event.preventDefault();
  field.focus();
  field.select();
}

/** Replaces rounded amounts with exact ones in text that the user copies. */
function copyExactAmounts(event: ClipboardEvent): void {
  const selection = getSelection();
  if (selection === null || selection.isCollapsed || (event.target as HTMLElement).closest("input, textarea") !== null)
    return;
  const range = selection.getRangeAt(0);
  const parent = range.commonAncestorContainer;
  const amount = (parent instanceof Element ? parent : parent.parentElement)?.closest("data");
  const copied = document.createElement("div");
  copied.append(amount?.cloneNode(true) ?? range.cloneContents());
  const amounts = copied.querySelectorAll("data");
  if (amounts.length === 0) return;
  for (const each of amounts) each.textContent = each.value;
  // `innerText` separates the cells and rows of a table with tabs and line breaks only while the table is part of the
  // page.
  document.body.append(copied);
  event.clipboardData?.setData("text/plain", copied.innerText);
  copied.remove();
  event.preventDefault();
}
