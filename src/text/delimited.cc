#include "text/delimited.h"

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace longformer::text {

DelimitedReader::DelimitedReader(TextLines lines, const DelimitedOptions& options)
    : lines_(std::move(lines)), options_(options) {}

bool DelimitedReader::next(std::vector<std::string>& fields) {
  fields.clear();
  do {
    if (!lines_.next(text_)) return false;
  } while (text_.empty());
  begin_ = lines_.number();
  std::size_t at = 0;
  fields.push_back(field(at));
  while (at < text_.size()) {
    ++at;
    fields.push_back(field(at));
  }
  return true;
}

std::string DelimitedReader::field(std::size_t& at) {
  if (options_.quotes && at < text_.size() && text_[at] == '"') return quoted_field(at);
  const std::size_t end = std::min(text_.find(options_.separator, at), text_.size());
  std::string value = text_.substr(at, end - at);
  at = end;
  return value;
}

std::string DelimitedReader::quoted_field(std::size_t& at) {
  const std::int64_t opened = lines_.number();
  std::string value;
  ++at;
  while (true) {
    const std::size_t quote = text_.find('"', at);
    if (quote == std::string::npos) {
      value.append(text_, at).append(lines_.line_break());
      require(lines_.next(text_), {Remedy::quotes},
              "{}:{}: expected a closing quote, found the end of the file", lines_.path(), opened);
      at = 0;
      continue;
    }
    value.append(text_, at, quote - at);
    at = quote + 1;
    if (at == text_.size() || text_[at] == options_.separator) return value;
    require(text_[at] == '"', {Remedy::quotes},
            "{}:{}: expected a separator behind a closing quote, found other text", lines_.path(),
            lines_.number());
    value.push_back('"');
    ++at;
  }
}

}  // namespace longformer::text
