#include "text/html_text.h"

#include <algorithm>

#include "text/html_elements.h"
#include "text/html_references.h"
#include "text/html_tokens.h"
#include "text/open_elements.h"
#include "text/shown_text.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

/// Browsers look no further for a charset than 1,024 bytes; pages with long comments before it are
/// read all the same.
constexpr std::size_t kCharsetWithin = 8192;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_html_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_html_space(text.back())) text.remove_suffix(1);
  return text;
}

/// The value in KEY=value of a text, with or without quotes.
std::string value_behind(std::string_view text, std::string_view key) {
  const auto found = std::search(text.begin(), text.end(), key.begin(), key.end(),
                                 [](char a, char b) { return ascii_lower(a) == b; });
  std::size_t begin = static_cast<std::size_t>(found - text.begin()) + key.size();
  const auto skip = [&](std::string_view characters) {
    begin = std::min(text.find_first_not_of(characters, begin), text.size());
  };
  if (found == text.end()) return {};
  skip(" \t\r\n");
  if (begin == text.size() || text[begin] != '=') return {};
  skip("= \t\r\n\"'");
  return std::string(text.substr(begin, text.find_first_of(" \t\r\n\"';?", begin) - begin));
}

/// The charset of a meta element; empty where it says none.
std::string charset_of_meta(const HtmlToken& meta) {
  if (const std::string_view* charset = meta.attribute("charset")) {
    return std::string(trimmed(*charset));
  }
  const std::string_view* about = meta.attribute("http-equiv");
  const std::string_view* content = meta.attribute("content");
  if (about == nullptr || content == nullptr) return {};
  return ascii_lower(trimmed(*about)) == "content-type" ? value_behind(*content, "charset")
                                                        : std::string();
}

std::string charset_of(const HtmlToken& token) {
  if (token.kind == HtmlToken::Kind::start_tag && token.name == "meta") {
    return charset_of_meta(token);
  }
  if (token.kind == HtmlToken::Kind::instruction && token.text.starts_with("xml")) {
    return value_behind(token.text, "encoding");
  }
  return {};
}

}  // namespace

std::string html_charset(std::string_view bytes) {
  HtmlTokens tokens(bytes.substr(0, kCharsetWithin));
  HtmlToken token;
  std::string declared;
  while (declared.empty() && tokens.next(token, false)) {
    declared = charset_of(token);
    const auto text_kind = html_element(token.name).text;
    if (token.kind == HtmlToken::Kind::start_tag && text_kind) {
      tokens.read_text(*text_kind, token.name);
    }
  }
  // It was read as ASCII, so it is not UTF-16, whatever it says.
  return ascii_lower(declared).starts_with("utf-16") ? "utf-8" : declared;
}

std::string html_text(std::string_view html) {
  HtmlTokens tokens(html);
  ShownText text;
  OpenElements open(text, trimmed(html.substr(0, kCharsetWithin)).starts_with("<?xml"));
  HtmlToken token;
  while (tokens.next(token, open.has_cdata())) {
    switch (token.kind) {
      case HtmlToken::Kind::text:
        if (!open.hides()) text.add(without_references(token.text), open.is_preformatted());
        break;
      case HtmlToken::Kind::raw_text:
        if (!open.hides()) text.add(token.text, open.is_preformatted());
        break;
      case HtmlToken::Kind::start_tag:
        open.start_tag(token);
        if (const auto kind = open.text_kind()) tokens.read_text(*kind, token.name);
        break;
      case HtmlToken::Kind::end_tag:
        open.end_tag(token.name);
        break;
      case HtmlToken::Kind::instruction:
      case HtmlToken::Kind::comment:
        break;
    }
  }
  return text.take();
}

}  // namespace longformer::text
