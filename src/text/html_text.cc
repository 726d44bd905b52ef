#include "text/html_text.h"

#include <libxml/HTMLparser.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <new>
#include <utility>

#include "core/error.h"
#include "text/unicode.h"

namespace longformer::text {
namespace {

/// Browsers look no further for a charset than 1,024 bytes; pages with long comments before it are
/// read all the same.
constexpr std::size_t kCharsetWithin = 8192;

/// Goes through a page by the events of libxml2: no tree is made, whose depth would be limited.
void parse(std::string_view html, const htmlSAXHandler& events, void* user) {
  require(html.size() <= std::numeric_limits<int>::max(),
          "HTML: expected at most 2 GB, found {} bytes", html.size());
  const std::unique_ptr<htmlParserCtxt, decltype(&htmlFreeParserCtxt)> context(htmlNewParserCtxt(),
                                                                               &htmlFreeParserCtxt);
  if (!context) throw std::bad_alloc();
  *context->sax = events;
  context->userData = user;
  htmlCtxtReadMemory(context.get(), html.data(), static_cast<int>(html.size()), nullptr, "UTF-8",
                     HTML_PARSE_RECOVER | HTML_PARSE_NOERROR | HTML_PARSE_NOWARNING |
                         HTML_PARSE_NONET | HTML_PARSE_NOIMPLIED | HTML_PARSE_IGNORE_ENC);
}

std::string_view view(const xmlChar* text) {
  return text == nullptr ? std::string_view() : reinterpret_cast<const char*>(text);
}

bool is_white(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '\f'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_white(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white(text.back())) text.remove_suffix(1);
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

/// Takes the first charset that is declared.
void declare(void* user, std::string charset) {
  auto& declared = *static_cast<std::string*>(user);
  if (declared.empty()) declared = std::move(charset);
}

void read_meta(void* user, const xmlChar* name, const xmlChar** attributes) {
  if (view(name) != "meta" || attributes == nullptr) return;
  std::string_view content;
  bool is_content_type = false;
  for (; *attributes != nullptr; attributes += 2) {
    const std::string_view key = view(attributes[0]), value = trimmed(view(attributes[1]));
    if (key == "charset") declare(user, std::string(value));
    if (key == "content") content = value;
    if (key == "http-equiv") is_content_type = ascii_lower(std::string(value)) == "content-type";
  }
  if (is_content_type) declare(user, value_behind(content, "charset"));
}

void read_instruction(void* user, const xmlChar* target, const xmlChar* data) {
  if (view(target) == "xml") declare(user, value_behind(view(data), "encoding"));
}

/// What an element is to a reader; what is not listed stands within a line.
enum class Role { block, line, cell, row_break, preformatted, hidden };

constexpr std::array<std::pair<std::string_view, Role>, 59> kRoles = {{
    {"address", Role::block},    {"article", Role::block},    {"aside", Role::block},
    {"blockquote", Role::block}, {"body", Role::block},       {"br", Role::row_break},
    {"caption", Role::block},    {"center", Role::block},     {"dd", Role::line},
    {"details", Role::block},    {"dialog", Role::block},     {"dir", Role::block},
    {"div", Role::block},        {"dl", Role::block},         {"dt", Role::line},
    {"fieldset", Role::block},   {"figcaption", Role::block}, {"figure", Role::block},
    {"footer", Role::block},     {"form", Role::block},       {"h1", Role::block},
    {"h2", Role::block},         {"h3", Role::block},         {"h4", Role::block},
    {"h5", Role::block},         {"h6", Role::block},         {"header", Role::block},
    {"hgroup", Role::block},     {"hr", Role::block},         {"iframe", Role::hidden},
    {"legend", Role::line},      {"li", Role::line},          {"listing", Role::preformatted},
    {"main", Role::block},       {"menu", Role::block},       {"nav", Role::block},
    {"noframes", Role::hidden},  {"noscript", Role::hidden},  {"ol", Role::block},
    {"optgroup", Role::line},    {"option", Role::line},      {"p", Role::block},
    {"pre", Role::preformatted}, {"script", Role::hidden},    {"search", Role::block},
    {"section", Role::block},    {"select", Role::block},     {"style", Role::hidden},
    {"summary", Role::block},    {"table", Role::block},      {"tbody", Role::line},
    {"td", Role::cell},          {"template", Role::hidden},  {"tfoot", Role::line},
    {"th", Role::cell},          {"thead", Role::line},       {"title", Role::hidden},
    {"tr", Role::line},          {"ul", Role::block},
}};
static_assert(std::is_sorted(kRoles.begin(), kRoles.end()));

const Role* role_of(std::string_view element) {
  const auto* found =
      std::lower_bound(kRoles.begin(), kRoles.end(), element,
                       [](const auto& row, std::string_view name) { return row.first < name; });
  return found != kRoles.end() && found->first == element ? &found->second : nullptr;
}

/// Makes text of elements and characters as they come.
class PageText {
 public:
  void open(std::string_view element) {
    const Role* role = role_of(element);
    if (role == nullptr) return;
    if (*role == Role::hidden) ++hidden_;
    if (*role == Role::preformatted) {
      ++preformatted_;
      at_begin_of_preformatted_ = true;
    }
    // Two of them in a row end a paragraph in many an old page.
    if (*role == Role::row_break)
      separate(separator_ < Separator::line ? Separator::line : Separator::paragraph);
    separate_by(*role);
  }

  void close(std::string_view element) {
    const Role* role = role_of(element);
    if (role == nullptr) return;
    if (*role == Role::hidden) --hidden_;
    if (*role == Role::preformatted) --preformatted_;
    separate_by(*role);
  }

  void add(std::string_view characters) {
    if (hidden_ > 0) return;
    if (preformatted_ > 0) {
      if (at_begin_of_preformatted_ && characters.starts_with('\n')) characters.remove_prefix(1);
      at_begin_of_preformatted_ = false;
      if (characters.empty()) return;
      write_separator();
      text_ += characters;
      return;
    }
    for (const char c : characters) {
      if (is_white(c)) {
        separate(Separator::space);
      } else {
        write_separator();
        text_ += c;
      }
    }
  }

  std::string take() {
    trim();
    return std::move(text_);
  }

 private:
  /// What stands before the next text: the strongest that was asked for.
  enum class Separator { none, space, cell, line, paragraph };

  void separate(Separator separator) { separator_ = std::max(separator_, separator); }

  void separate_by(Role role) {
    if (role == Role::block || role == Role::preformatted) separate(Separator::paragraph);
    if (role == Role::line) separate(Separator::line);
    if (role == Role::cell) separate(Separator::cell);
  }

  void write_separator() {
    const Separator separator = std::exchange(separator_, Separator::none);
    if (separator == Separator::none || text_.empty()) return;
    if (separator == Separator::space && is_white(text_.back())) return;
    if (separator != Separator::space) trim();
    constexpr std::array<std::string_view, 5> kTexts = {"", " ", "\t", "\n", "\n\n"};
    if (!text_.empty()) text_ += kTexts[static_cast<std::size_t>(separator)];
  }

  /// Preformatted text may end in white space.
  void trim() {
    while (!text_.empty() && is_white(text_.back())) text_.pop_back();
  }

  std::string text_;
  Separator separator_ = Separator::none;
  int hidden_ = 0, preformatted_ = 0;
  bool at_begin_of_preformatted_ = false;
};

}  // namespace

std::string html_charset(std::string_view bytes) {
  htmlSAXHandler events = {};
  events.startElement = &read_meta;
  events.processingInstruction = &read_instruction;
  std::string declared;
  parse(bytes.substr(0, kCharsetWithin), events, &declared);
  // It was read as ASCII, so it is not UTF-16, whatever it says.
  return ascii_lower(declared).starts_with("utf-16") ? "utf-8" : declared;
}

std::string html_text(std::string_view html) {
  htmlSAXHandler events = {};
  events.startElement = [](void* page, const xmlChar* name, const xmlChar**) {
    static_cast<PageText*>(page)->open(view(name));
  };
  events.endElement = [](void* page, const xmlChar* name) {
    static_cast<PageText*>(page)->close(view(name));
  };
  events.characters = [](void* page, const xmlChar* characters, int size) {
    static_cast<PageText*>(page)->add(
        {reinterpret_cast<const char*>(characters), static_cast<std::size_t>(size)});
  };
  events.ignorableWhitespace = events.characters;
  PageText page;
  parse(html, events, &page);
  return page.take();
}

}  // namespace longformer::text
