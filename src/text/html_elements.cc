#include "text/html_elements.h"

#include <algorithm>
#include <array>

namespace longformer::text {
namespace {

using Role = HtmlRole;
using Text = HtmlTextKind;

constexpr std::array<HtmlElement, 106> kElements = {{
    {.name = "a", .formats = true},
    {.name = "address", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "applet", .special = true, .bounds_scope = true},
    {.name = "area", .is_void = true, .special = true},
    {.name = "article", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "aside", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "audio", .role = Role::hidden},
    {.name = "b", .formats = true},
    {.name = "base", .is_void = true, .special = true},
    {.name = "basefont", .is_void = true, .special = true},
    {.name = "bgsound", .is_void = true, .special = true},
    {.name = "big", .formats = true},
    {.name = "blockquote", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "body", .role = Role::block, .special = true},
    {.name = "br", .role = Role::row_break, .is_void = true, .special = true},
    {.name = "button", .special = true},
    {.name = "canvas", .role = Role::hidden},
    {.name = "caption", .role = Role::block, .special = true, .bounds_scope = true},
    {.name = "center", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "code", .formats = true},
    {.name = "col", .is_void = true, .special = true},
    {.name = "colgroup", .special = true},
    {.name = "datalist", .role = Role::hidden},
    {.name = "dd", .role = Role::line, .ends_paragraph = true, .special = true},
    {.name = "details", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "dialog", .role = Role::block, .ends_paragraph = true},
    {.name = "dir", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "div", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "dl", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "dt", .role = Role::line, .ends_paragraph = true, .special = true},
    {.name = "em", .formats = true},
    {.name = "embed", .is_void = true, .special = true},
    {.name = "fieldset", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "figcaption", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "figure", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "font", .formats = true},
    {.name = "footer", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "form", .role = Role::block, .formats = true, .ends_paragraph = true, .special = true},
    {.name = "frame", .is_void = true, .special = true},
    {.name = "frameset", .special = true},
    {.name = "h1", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "h2", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "h3", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "h4", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "h5", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "h6", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "head", .special = true},
    {.name = "header", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "hgroup", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "hr", .role = Role::block, .is_void = true, .ends_paragraph = true, .special = true},
    {.name = "html", .special = true, .bounds_scope = true},
    {.name = "i", .formats = true},
    {.name = "iframe", .role = Role::hidden, .special = true, .text = Text::raw},
    {.name = "img", .is_void = true, .special = true},
    {.name = "input", .is_void = true, .special = true},
    {.name = "keygen", .is_void = true, .special = true},
    {.name = "legend", .role = Role::line},
    {.name = "li", .role = Role::line, .ends_paragraph = true, .special = true},
    {.name = "link", .is_void = true, .special = true},
    {.name = "listing",
     .role = Role::block,
     .preformatted = true,
     .ends_paragraph = true,
     .special = true},
    {.name = "main", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "marquee", .special = true, .bounds_scope = true},
    {.name = "menu", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "meta", .is_void = true, .special = true},
    {.name = "nav", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "nobr", .formats = true},
    {.name = "noembed", .role = Role::hidden, .special = true, .text = Text::raw},
    {.name = "noframes", .role = Role::hidden, .special = true, .text = Text::raw},
    {.name = "noscript", .role = Role::hidden, .special = true, .text = Text::raw},
    {.name = "object", .special = true, .bounds_scope = true},
    {.name = "ol", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "optgroup", .role = Role::line},
    {.name = "option", .role = Role::line},
    {.name = "p", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "param", .is_void = true, .special = true},
    {.name = "plaintext",
     .role = Role::block,
     .preformatted = true,
     .ends_paragraph = true,
     .special = true,
     .text = Text::plain},
    {.name = "pre",
     .role = Role::block,
     .preformatted = true,
     .ends_paragraph = true,
     .special = true},
    {.name = "rp", .role = Role::hidden},
    {.name = "s", .formats = true},
    {.name = "script", .role = Role::hidden, .special = true, .text = Text::script},
    {.name = "search", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "section", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "select", .role = Role::block, .special = true},
    {.name = "small", .formats = true},
    {.name = "source", .is_void = true, .special = true},
    {.name = "strike", .formats = true},
    {.name = "strong", .formats = true},
    {.name = "style", .role = Role::hidden, .special = true, .text = Text::raw},
    {.name = "summary", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "table",
     .role = Role::block,
     .ends_paragraph = true,
     .special = true,
     .bounds_scope = true},
    {.name = "tbody", .role = Role::line, .special = true},
    {.name = "td", .role = Role::cell, .special = true, .bounds_scope = true},
    {.name = "template", .role = Role::hidden, .special = true, .bounds_scope = true},
    {.name = "textarea", .preformatted = true, .special = true, .text = Text::references},
    {.name = "tfoot", .role = Role::line, .special = true},
    {.name = "th", .role = Role::cell, .special = true, .bounds_scope = true},
    {.name = "thead", .role = Role::line, .special = true},
    {.name = "title", .role = Role::hidden, .special = true, .text = Text::references},
    {.name = "tr", .role = Role::line, .special = true},
    {.name = "track", .is_void = true, .special = true},
    {.name = "tt", .formats = true},
    {.name = "u", .formats = true},
    {.name = "ul", .role = Role::block, .ends_paragraph = true, .special = true},
    {.name = "video", .role = Role::hidden},
    {.name = "wbr", .is_void = true, .special = true},
    {.name = "xmp",
     .role = Role::block,
     .preformatted = true,
     .ends_paragraph = true,
     .special = true,
     .text = Text::raw},
}};
static_assert(std::is_sorted(kElements.begin(), kElements.end(),
                             [](const auto& a, const auto& b) { return a.name < b.name; }));

constexpr std::array<std::string_view, 44> kForeignEnds = {
    {"b",      "big",  "blockquote", "body",  "br",   "center", "code",    "dd",   "div",
     "dl",     "dt",   "em",         "embed", "h1",   "h2",     "h3",      "h4",   "h5",
     "h6",     "head", "hr",         "i",     "img",  "li",     "listing", "menu", "meta",
     "nobr",   "ol",   "p",          "pre",   "ruby", "s",      "small",   "span", "strike",
     "strong", "sub",  "sup",        "table", "tt",   "u",      "ul",      "var"}};
static_assert(std::is_sorted(kForeignEnds.begin(), kForeignEnds.end()));

}  // namespace

const HtmlElement& html_element(std::string_view name) {
  static constexpr HtmlElement kUnlisted;
  const auto* found =
      std::lower_bound(kElements.begin(), kElements.end(), name,
                       [](const auto& row, std::string_view wanted) { return row.name < wanted; });
  return found != kElements.end() && found->name == name ? *found : kUnlisted;
}

bool ends_foreign_content(const HtmlToken& tag) {
  if (tag.name != "font") {
    return std::binary_search(kForeignEnds.begin(), kForeignEnds.end(), tag.name);
  }
  return tag.attribute("color") != nullptr || tag.attribute("face") != nullptr ||
         tag.attribute("size") != nullptr;
}

}  // namespace longformer::text
