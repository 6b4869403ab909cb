import { describe, expect, it } from "vitest";
import { boundaryOf, formParts } from "../../../src/wire/multipart.ts";

const field = (name: string, value: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
const file = (name: string, bytes: string) =>
  `--b\r\nContent-Disposition: form-data; name="${name}"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n${bytes}\r\n`;
const end = "--b--\r\n";
const partsOf = (text: string) =>
  formParts(Buffer.from(text, "latin1"), "b")?.map(({ name, isFile, value }) => [name, isFile, value.toString()]);
/** Returns a form whose field has another header. */
const encoded = (header: string) => field("model", "a").replace("\r\n\r\n", `\r\n${header}\r\n\r\n`) + end;

describe("the parts of a form", () => {
  it("have their names and values in their order", () => {
    expect(partsOf(field("model", "a") + file("file", "\r\n--\r\n\r\n-b") + field("n", "") + end)).toEqual([
      ["model", false, "a"],
      ["file", true, "\r\n--\r\n\r\n-b"],
      ["n", false, ""],
    ]);
  });

  it.each([
    ["without a line end at its end", field("model", "a") + end.trimEnd()],
    ["with a length for each part", field("model", "a").replace("\r\n\r\n", "\r\nContent-Length: 1\r\n\r\n") + end],
    // axios 1.7
    ["with an empty line after its end", `${field("model", "a")}${end}\r\n`],
    // Older programs for .NET
    ["with a line end before its start", `\r\n${field("model", "a")}${end}`],
    // .NET
    ["without quotes", field("model", "a").replace('"model"', "model") + end],
    ["with other headers", field("model", "a").replace("\r\n\r\n", "\r\nContent-MD5:\tx\r\nX-Part-1: 1\r\n\r\n") + end],
    [
      "with a type and an encoding for each part",
      `${field("model", "a").replace("\r\n\r\n", "\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n")}${end}`,
    ],
  ])("are read %s", (_what, text) => {
    expect(partsOf(text)).toEqual([["model", false, "a"]]);
  });

  it.each([
    "form-data; name=file; filename=a.wav; filename*=utf-8''a.wav",
    // Jersey
    'form-data; filename="name=x;a.wav"; modification-date="Sat, 28 Nov 2026 10:00:00 GMT"; size=123; name="file"',
    'Form-Data;Name="file";FileName="a.wav"',
  ])("are read with the disposition %s", (disposition) => {
    const form = file("file", "x").replace('form-data; name="file"; filename="a.wav"', disposition) + end;
    expect(partsOf(form)).toEqual([["file", true, "x"]]);
  });

  it("are read from files with any charset, because only fields have texts", () => {
    const form = file("file", "x").replace("audio/wav", "audio/wav; charset=binary") + end;
    expect(partsOf(form)).toEqual([["file", true, "x"]]);
  });

  it.each(['"C:\\\\a.wav"', '"a \\"b\\".wav"', '"a;b=c.wav"', "\"ä.wav\"; filename*=UTF-8''%C3%A4.wav", "a.wav"])(
    "are read with the file name %s",
    (name) => {
      expect(partsOf(file("file", "x").replace('"a.wav"', name) + end)).toEqual([["file", true, "x"]]);
    },
  );

  it.each([
    ["a preamble", `hello\r\n${field("model", "a")}${end}`],
    ["a part after its end", `${field("model", "a")}${end}${field("model", "b")}${end}`],
    ["no end", field("model", "a")],
    [
      "an end in the middle of a value",
      `${field("model", "a")}--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n1`,
    ],
    ["bare line feeds", (field("model", "a") + end).replaceAll("\r\n", "\n")],
    ["a folded header", field("model", "a").replace("; name", ";\r\n name") + end],
    ["two names", field("model", "a").replace('"model"', '"model"; name="n"') + end],
    ["a name after a file's name", file("file", "a").replace('"a.wav"', '"a.wav"; name="model"') + end],
    ["a list's name without quotes", field("model", "a").replace('"model"', "model[]") + end],
    ["a name that some readers decode", field("=?utf-8?B?bW9kZWw=?=", "a") + end],
    ["a name in RFC 2231", field("model", "a").replace('name="model"', "name*=utf-8''model") + end],
    [
      "a file's name in which some readers find a name",
      file("file", "x").replace("a.wav", 'a\\";name=model;x=\\"b') + end,
    ],
    ["an unknown parameter of its disposition", field("model", "a").replace('"model"', '"model"; x=y') + end],
    ["two empty lines before it", `\r\n\r\n${field("model", "a")}${end}`],
    ["text after its end", `${field("model", "a")}${end}text`],
    ["much white space after its end", `${field("model", "a")}${end}${"\r\n".repeat(20)}`],
    ["an escape in a name", field('mo\\"del', "a") + end],
    [
      "two dispositions",
      field("model", "a").replace("\r\n\r\n", '\r\ncontent-disposition: form-data; name="n"\r\n\r\n') + end,
    ],
    [
      "a value that some readers decode",
      field("model", "gpt-4=\r\no").replace("\r\n\r\n", "\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n") +
        end,
    ],
    ["no disposition", "--b\r\nContent-Type: a/b\r\n\r\nx\r\n--b--"],
    ["no headers", "--b\r\n\r\nx\r\n--b--"],
    ["no empty line after a part's headers", '--b\r\nContent-Disposition: form-data; name="n"\r\n\r\n--b--'],
    ["spaces after a delimiter", field("model", "a").replace("--b\r\n", "--b  \r\n") + end],
    ["a delimiter that continues", field("model", "a\r\n--bc") + end],
    ["a value in base64", encoded("Content-Transfer-Encoding: base64")],
    ["a value in quoted-printable", encoded("content-transfer-encoding:Quoted-Printable")],
    ["a value in UTF-16", encoded("Content-Type: text/plain; charset=UTF-16")],
    ["a value in UTF-7", encoded('Content-Type: text/plain; charset="utf-8"; charset=utf-7')],
    ["an encoded charset", encoded("Content-Type: text/plain; charset*=utf-8''utf-7")],
    ["endless headers", `--b\r\nContent-Disposition: ${"x".repeat(20_000)}\r\n\r\n\r\n${end}`],
    ["too many parts", field("n", "1").repeat(1001) + end],
  ])("are not read from a form with %s", (_what, text) => {
    expect(partsOf(text)).toBeUndefined();
  });

  it.each([
    "Content-Type: text/plain; charset=utf-8",
    'Content-Type: text/plain; charset="US-ASCII"; format=flowed',
    "Content-Type: text/plain; charset=ISO-8859-1",
    "Content-Transfer-Encoding: 8bit",
    "Content-Transfer-Encoding: binary",
    "Content-Length: 1",
  ])("are read with the header %s", (header) => {
    expect(partsOf(encoded(header))).toEqual([["model", false, "a"]]);
  });
});

describe("boundaryOf", () => {
  it.each([
    ["multipart/form-data; boundary=abc", "abc"],
    ["multipart/form-data; charset=utf-8; boundary=abc", "abc"],
    ['multipart/form-data; boundary=abc; charset="UTF-8"', "abc"],
    ["multipart/form-data; boundary=abc; charset=utf-16", undefined],
    ["multipart/form-data; boundary=abc; charset=ISO-8859-1", "abc"],
    ["multipart/form-data;boundary=*****", "*****"],
    ["multipart/form-data; boundary=abc;", "abc"],
    ['Multipart/Form-Data; boundary="a=b"', "a=b"],
    ["multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW", "----WebKitFormBoundary7MA4YWxkTrZu0gW"],
    ["multipart/form-data", undefined],
    // In each of these, another reader could find another boundary.
    ["multipart/form-data; boundary=a; boundary=b", undefined],
    ["multipart/form-data; boundary=a; BOUNDARY=b", undefined],
    ["multipart/form-data; boundary=a, multipart/form-data; boundary=b", undefined],
    ["multipart/form-data; boundary=a,b", undefined],
    ["multipart/form-data; charset=utf-16; boundary=a", undefined],
    ["multipart/form-data; boundary*=utf-8''a", undefined],
    ["multipart/form-data; boundary*0=a; boundary*1=b", undefined],
    ["multipart/form-data; (boundary=a) boundary=b", undefined],
    ["multipart/form-data; boundary=a (comment)", undefined],
    ['multipart/form-data; boundary="a b"', undefined],
    ['multipart/form-data; boundary="a;b"', undefined],
    ['multipart/form-data; boundary="a\\b"', undefined],
    ['multipart/form-data; boundary="a', undefined],
    ['multipart/form-data; boundary=a"', undefined],
    ['multipart/form-data; boundary=""', undefined],
    ["multipart/form-data; boundary=ä", undefined],
    [`multipart/form-data; boundary=${"a".repeat(71)}`, undefined],
    ["multipart/form-data;\u00a0boundary=a", undefined],
    ["multipart/mixed; boundary=a", undefined],
  ])("for %s returns %s", (type, boundary) => {
    expect(boundaryOf(type)).toBe(boundary);
  });
});
