#include "text/open_elements.h"

#include <algorithm>
#include <utility>

#include "text/unicode.h"

namespace longformer::text {
namespace {

/// The standard opens so many alike again.
constexpr std::ptrdiff_t kMostKept = 3;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_heading(std::string_view name) {
  return name.size() == 2 && name[0] == 'h' && name[1] >= '1' && name[1] <= '6';
}

bool is_table_part(std::string_view name) {
  return is_one_of(name,
                   {"caption", "col", "colgroup", "tbody", "td", "tfoot", "th", "thead", "tr"});
}

/// A browser opens these by itself, and a script may show what is hidden so.
bool is_whole_page(std::string_view name) { return is_one_of(name, {"html", "head", "body"}); }

/// Text with `hidden="until-found"` can be found, so it is not hidden.
bool has_hidden(const HtmlToken& tag) {
  const std::string_view* value = tag.attribute("hidden");
  return value != nullptr && ascii_lower(*value) != "until-found";
}

}  // namespace

void OpenElements::start_tag(const HtmlToken& tag) {
  if (is_foreign() && ends_foreign_content(tag)) {
    while (is_foreign()) pop();
  }
  if (is_foreign()) {
    start_foreign(tag);
  } else {
    start_html(tag);
  }
}

void OpenElements::end_tag(const std::string& name) {
  if (has_cdata() && end_within(name, Reach::foreign)) return;
  if (is_whole_page(name)) return;
  const HtmlElement& element = html_element(name);
  if (is_heading(name)) {
    end_heading();
    return;
  }
  if (end_within(name, reach_of(name, element)) || hides()) return;
  // These two are never lost.
  if (name == "p" || (name == "br" && !is_xml_)) text_.begin(element);
}

std::optional<HtmlTextKind> OpenElements::text_kind() const {
  if (open_.empty() || open_.back().space != Space::html) return std::nullopt;
  return open_.back().element.text;
}

bool OpenElements::is_foreign() const {
  return !open_.empty() && open_.back().space != Space::html && !open_.back().holds_html;
}

void OpenElements::start_html(const HtmlToken& tag) {
  const HtmlElement& element = html_element(tag.name);
  if (is_whole_page(tag.name)) {
    if (!hides()) text_.begin(element);
    return;
  }
  if (is_table_part(tag.name) && !find("table", Reach::table)) {
    // Its content stands here as text, which is not joined to what is before it.
    if (!hides()) text_.begin(element);
    return;
  }
  end_before(tag, element);
  const bool hidden = element.role == HtmlRole::hidden || has_hidden(tag);
  if (element.is_void) {
    if (!hides() && !hidden) text_.begin(element);
    return;
  }
  const Space space = tag.name == "svg"    ? Space::svg
                      : tag.name == "math" ? Space::math
                                           : Space::html;
  push({.name = tag.name, .element = element, .space = space, .hidden = hidden});
  if (tag.self_closing && (is_xml_ || space != Space::html)) pop();
}

void OpenElements::start_foreign(const HtmlToken& tag) {
  const Space space = open_.back().space;
  const bool in_svg = space == Space::svg;
  Open element = {.name = tag.name, .element = {}, .space = space};
  if (in_svg) {
    element.holds_html = is_one_of(tag.name, {"desc", "foreignobject", "title"});
    element.hidden = is_one_of(tag.name, {"defs", "desc", "metadata", "script", "style", "title"});
  } else {
    const std::string_view* encoding = tag.attribute("encoding");
    const std::string format = encoding == nullptr ? std::string() : ascii_lower(*encoding);
    element.holds_html =
        is_one_of(tag.name, {"mi", "mn", "mo", "ms", "mtext"}) ||
        (tag.name == "annotation-xml" && is_one_of(format, {"application/xhtml+xml", "text/html"}));
    element.hidden = is_one_of(tag.name, {"annotation", "annotation-xml"});
  }
  push(std::move(element));
  if (tag.self_closing) pop();
}

/// Ends what a start tag ends.
void OpenElements::end_before(const HtmlToken& tag, const HtmlElement& element) {
  const std::string& name = tag.name;
  if (name == "li") end_within("li", Reach::item);
  if (name == "dd" || name == "dt") {
    if (!end_within("dd", Reach::item)) end_within("dt", Reach::item);
  }
  if (element.ends_paragraph) end_within("p", Reach::button);
  if (is_heading(name) && !open_.empty() && is_heading(open_.back().name)) pop();
  if (name == "option" || name == "optgroup") {
    if (is_top("option")) pop();
    if (name == "optgroup" && is_top("optgroup")) pop();
  }
  if (is_one_of(name, {"rb", "rp", "rt", "rtc"}) && find("ruby", Reach::scope)) {
    while (is_top("rb") || is_top("rp") || is_top("rt")) pop();
  }
  if (name == "a" || name == "nobr" || name == "button") end_within(name, Reach::scope);
  end_table_parts(name);
}

void OpenElements::end_table_parts(const std::string& name) {
  const bool is_cell = name == "td" || name == "th", is_row = name == "tr";
  const bool is_part = is_one_of(name, {"caption", "col", "colgroup", "tbody", "tfoot", "thead"});
  if ((!is_cell && !is_row && !is_part) || !find("table", Reach::table)) return;
  const auto holds = [&](std::string_view outer) {
    if (outer == "table" || outer == "template") return true;
    if (is_part) return name == "col" && outer == "colgroup";
    return is_one_of(outer, {"tbody", "tfoot", "thead"}) || (is_cell && outer == "tr");
  };
  while (!holds(open_.back().name)) pop();
}

/// The end tag of any heading ends the innermost.
void OpenElements::end_heading() {
  std::optional<std::size_t> innermost;
  for (const char* name : {"h1", "h2", "h3", "h4", "h5", "h6"}) {
    innermost = std::max(innermost, find(name, Reach::scope));
  }
  if (innermost) pop_to(*innermost);
}

void OpenElements::push(Open element) {
  const std::size_t place = open_.size();
  if (place > 0) element.floors = open_.back().floors;
  for (std::size_t i = 0; i < element.floors.size(); ++i) {
    if (bounds(element, static_cast<Reach>(i))) element.floors[i] = place + 1;
  }
  hidden_ += element.hidden ? 1 : 0;
  preformatted_ += element.element.preformatted ? 1 : 0;
  if (!hides()) text_.begin(element.element);
  places_[element.name].push_back(place);
  open_.push_back(std::move(element));
}

void OpenElements::pop() {
  const Open& element = open_.back();
  if (!element.ended) {
    places_[element.name].pop_back();
    stop_showing(element);
  }
  open_.pop_back();
}

/// An element of format ends at its own end tag alone, so that what is hidden stays hidden in the
/// blocks that follow.
void OpenElements::pop_to(std::size_t place) {
  std::vector<Open> kept;
  while (open_.size() > place) {
    const Open& element = open_.back();
    if (element.element.bounds_scope) kept.clear();
    if (element.element.formats && element.hidden && !element.ended &&
        std::count_if(kept.begin(), kept.end(),
                      [&](const Open& other) { return other.name == element.name; }) < kMostKept) {
      kept.push_back(element);
    }
    pop();
  }
  while (!open_.empty() && open_.back().ended) pop();
  for (auto element = kept.rbegin(); element != kept.rend(); ++element) push(std::move(*element));
}

void OpenElements::end_in_place(std::size_t place) {
  Open& element = open_[place];
  element.ended = true;
  places_[element.name].pop_back();
  stop_showing(element);
  if (element.hidden && !hides()) {
    // Elements opened within it continue without it.
    for (std::size_t i = place + 1; i < open_.size(); ++i) text_.begin(open_[i].element);
  }
  while (!open_.empty() && open_.back().ended) pop();
}

void OpenElements::stop_showing(const Open& element) {
  if (!hides()) text_.end(element.element);
  hidden_ -= element.hidden ? 1 : 0;
  preformatted_ -= element.element.preformatted ? 1 : 0;
}

bool OpenElements::end_within(const std::string& name, Reach reach) {
  const auto place = find(name, reach);
  if (!place) return false;
  if (open_[*place].element.formats) {
    end_in_place(*place);
  } else {
    pop_to(*place);
  }
  return true;
}

std::optional<std::size_t> OpenElements::find(const std::string& name, Reach reach) const {
  const auto places = places_.find(name);
  if (places == places_.end() || places->second.empty()) return std::nullopt;
  const std::size_t place = places->second.back();
  const std::size_t floor = open_.back().floors[static_cast<std::size_t>(reach)];
  return place + 1 >= floor ? std::optional(place) : std::nullopt;
}

OpenElements::Reach OpenElements::reach_of(const std::string& name, const HtmlElement& element) {
  if (name == "template") return Reach::anywhere;
  if (name == "p") return Reach::button;
  if (name == "li") return Reach::list;
  if (is_one_of(name, {"caption", "colgroup", "select", "table", "tbody", "td", "tfoot", "th",
                       "thead", "tr"})) {
    return Reach::table;
  }
  return element.special || element.formats ? Reach::scope : Reach::special;
}

bool OpenElements::bounds(const Open& element, Reach reach) {
  if (reach == Reach::foreign) return element.space == Space::html;
  if (reach == Reach::anywhere) return false;
  const std::string& name = element.name;
  const bool bounds_table = element.space == Space::html && is_one_of(name, {"table", "template"});
  if (reach == Reach::table || bounds_table) return bounds_table;
  if (element.holds_html || element.element.bounds_scope) return true;
  if (reach == Reach::button) return name == "button";
  if (reach == Reach::list) return is_one_of(name, {"ol", "ul"});
  if (reach == Reach::item)
    return element.element.special && !is_one_of(name, {"address", "div", "p"});
  return reach == Reach::special && element.element.special;
}

}  // namespace longformer::text
