#include "text/html_tokens.h"

#include <algorithm>

#include "text/unicode.h"

namespace longformer::text {
namespace {

bool is_letter(char c) {
  const char small = ascii_lower(c);
  return small >= 'a' && small <= 'z';
}

bool ends_name(char c) { return is_html_space(c) || c == '/' || c == '>'; }

}  // namespace

const std::string_view* HtmlToken::attribute(std::string_view wanted) const {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& row) { return row.first == wanted; });
  return found == attributes.end() ? nullptr : &found->second;
}

bool HtmlTokens::next(HtmlToken& token, bool has_cdata) {
  token = HtmlToken();
  if (!element_.empty() && read_element_text(token)) return true;
  if (at_ == page_.size()) return false;
  if (begins_markup(at_)) {
    read_markup(token, has_cdata);
  } else {
    read_characters(token);
  }
  return true;
}

void HtmlTokens::read_text(HtmlTextKind kind, const std::string& element) {
  element_ = element;
  text_kind_ = kind;
}

bool HtmlTokens::begins_markup(std::size_t at) const {
  if (page_[at] != '<' || at + 1 == page_.size()) return false;
  const char next = page_[at + 1];
  return is_letter(next) || next == '!' || next == '?' || (next == '/' && at + 2 < page_.size());
}

bool HtmlTokens::begins(std::size_t at, std::string_view small_letters) const {
  const std::string_view found = page_.substr(at, small_letters.size());
  return std::equal(found.begin(), found.end(), small_letters.begin(), small_letters.end(),
                    [](char a, char b) { return ascii_lower(a) == b; });
}

bool HtmlTokens::begins_tag(std::size_t at, std::string_view beginning,
                            std::string_view name) const {
  const std::size_t end = at + beginning.size() + name.size();
  return begins(at, beginning) && begins(at + beginning.size(), name) && end < page_.size() &&
         ends_name(page_[end]);
}

void HtmlTokens::read_characters(HtmlToken& token) {
  std::size_t end = at_;
  do {
    end = std::min(page_.find('<', end + 1), page_.size());
  } while (end < page_.size() && !begins_markup(end));
  token.kind = HtmlToken::Kind::text;
  token.text = page_.substr(at_, end - at_);
  at_ = end;
}

bool HtmlTokens::read_element_text(HtmlToken& token) {
  const std::size_t end = end_of_element_text();
  token.kind =
      text_kind_ == HtmlTextKind::references ? HtmlToken::Kind::text : HtmlToken::Kind::raw_text;
  token.text = page_.substr(at_, end - at_);
  at_ = end;
  element_.clear();
  return !token.text.empty();
}

std::size_t HtmlTokens::end_of_element_text() const {
  if (text_kind_ == HtmlTextKind::plain) return page_.size();
  if (text_kind_ == HtmlTextKind::script) return end_of_script();
  std::size_t end = page_.find('<', at_);
  while (end < page_.size() && !begins_tag(end, "</", element_)) end = page_.find('<', end + 1);
  return std::min(end, page_.size());
}

/// Within <!-- and --> a script may hold the tags of another one.
std::size_t HtmlTokens::end_of_script() const {
  enum class State { plain, comment, inner } state = State::plain;
  std::size_t at = at_;
  while ((at = page_.find_first_of("<-", at)) < page_.size()) {
    if (state == State::plain && begins(at, "<!--")) {
      state = State::comment;
      // The dashes may be those of --> too.
      at += 2;
    } else if (state != State::plain && begins(at, "-->")) {
      state = State::plain;
      at += 3;
    } else if (begins_tag(at, "</", element_)) {
      if (state != State::inner) return at;
      state = State::comment;
      at += 2;
    } else {
      if (state == State::comment && begins_tag(at, "<", element_)) state = State::inner;
      ++at;
    }
  }
  return page_.size();
}

void HtmlTokens::read_markup(HtmlToken& token, bool has_cdata) {
  const char next = page_[at_ + 1];
  if (is_letter(next) || (next == '/' && is_letter(page_[at_ + 2]))) {
    read_tag(token);
  } else if (begins(at_, "<!--")) {
    skip_comment();
  } else if (has_cdata && page_.substr(at_).starts_with("<![CDATA[")) {
    at_ += std::string_view("<![CDATA[").size();
    token.kind = HtmlToken::Kind::raw_text;
    token.text = up_to("]]>");
  } else {
    at_ += 2;
    if (next == '?') token.kind = HtmlToken::Kind::instruction;
    token.text = up_to(">");
  }
}

void HtmlTokens::skip_comment() {
  at_ += 4;
  if (begins(at_, ">") || begins(at_, "->")) {
    up_to(">");
    return;
  }
  while ((at_ = page_.find("--", at_)) < page_.size()) {
    if (begins(at_, "-->") || begins(at_, "--!>")) {
      up_to(">");
      return;
    }
    ++at_;
  }
  at_ = page_.size();
}

/// Text before the next `end`, which is skipped.
std::string_view HtmlTokens::up_to(std::string_view end) {
  const std::size_t found = page_.find(end, at_);
  const std::string_view text = page_.substr(at_, found - at_);
  at_ = found == std::string_view::npos ? page_.size() : found + end.size();
  return text;
}

/// A tag that the page ends in is none.
void HtmlTokens::read_tag(HtmlToken& token) {
  const bool is_end = page_[at_ + 1] == '/';
  at_ += is_end ? 2 : 1;
  const std::size_t begin = at_;
  while (at_ < page_.size() && !ends_name(page_[at_])) ++at_;
  token.name = ascii_lower(page_.substr(begin, at_ - begin));
  while (read_attribute(token)) {
  }
  if (at_ == page_.size()) return;
  ++at_;
  token.kind = is_end ? HtmlToken::Kind::end_tag : HtmlToken::Kind::start_tag;
}

/// Whether there was one more before the end of the tag, at which it stays.
bool HtmlTokens::read_attribute(HtmlToken& token) {
  for (; at_ < page_.size() && (is_html_space(page_[at_]) || page_[at_] == '/'); ++at_) {
    token.self_closing = page_[at_] == '/' && page_.substr(at_ + 1).starts_with('>');
  }
  if (at_ == page_.size() || page_[at_] == '>') return false;
  const std::size_t begin = at_++;
  while (at_ < page_.size() && !ends_name(page_[at_]) && page_[at_] != '=') ++at_;
  std::string name = ascii_lower(page_.substr(begin, at_ - begin));
  skip_space();
  std::string_view value;
  if (at_ < page_.size() && page_[at_] == '=') {
    ++at_;
    skip_space();
    value = read_value();
  }
  // The first of one name counts, which the search finds.
  token.attributes.emplace_back(std::move(name), value);
  return true;
}

std::string_view HtmlTokens::read_value() {
  if (at_ == page_.size()) return {};
  if (const char quote = page_[at_]; quote == '"' || quote == '\'') {
    ++at_;
    return up_to({&quote, 1});
  }
  const std::size_t begin = at_;
  while (at_ < page_.size() && !is_html_space(page_[at_]) && page_[at_] != '>') ++at_;
  return page_.substr(begin, at_ - begin);
}

void HtmlTokens::skip_space() {
  while (at_ < page_.size() && is_html_space(page_[at_])) ++at_;
}

}  // namespace longformer::text
