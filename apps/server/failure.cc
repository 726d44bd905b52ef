#include "failure.h"

#include <fmt/format.h>

#include <algorithm>

#include "longformer/report.h"
#include "offsets.h"

namespace longformer::server {

std::string Failure::one_line(const std::string& message) {
  constexpr std::size_t kMost = 400;
  std::string line;
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    if (line.size() >= kMost && !is_continuation(c)) return line + "…";
    if (byte < ' ' || byte == 0x7f) {
      fmt::format_to(std::back_inserter(line), "\\x{:02x}", byte);
    } else {
      line += c;
    }
  }
  return line;
}

void refuse(const std::string& message) { throw Failure(422, "Validation", message); }

void refuse_missing(std::string_view name) { refuse(fmt::format("missing field `{}`", name)); }

void refuse_empty(std::string_view name) {
  throw Failure(400, "Empty", fmt::format("`{}` cannot be empty", name));
}

void refuse_head(const std::string& message) { throw Failure(424, "Backend", message); }

Failure failure_of(const Error& error, std::string_view list) {
  const auto& remedies = error.remedies();
  const bool is_too_long = std::ranges::find(remedies, Remedy::truncate) != remedies.end() ||
                           std::ranges::find(remedies, Remedy::split) != remedies.end();
  const auto& document = error.document();
  std::string message = error.what();
  if (document) {
    message = fmt::format("`{}[{}]`: {}", list, *document, error.reason());
  } else if (!error.option().empty()) {
    message = fmt::format("`{}`: {}", error.option(), error.reason());
  }
  if (is_too_long) message += "; truncate: true cuts it, ?long=split reads all of it";
  const bool is_request = is_too_long || document || !error.option().empty();
  return is_request ? Failure(422, "Validation", message) : Failure(424, "Backend", message);
}

std::string error_json(const Failure& failure, ErrorForm form) {
  JsonLine json;
  if (form == ErrorForm::ollama) return json.add("error", failure.what()).object();
  if (form == ErrorForm::tei) {
    return json.add("error", failure.what()).add("error_type", failure.type()).object();
  }
  const auto code = std::int64_t{failure.status()};
  JsonLine error;
  error.add("message", failure.what()).add("type", failure.type()).add_null("param");
  error.add("code", code);
  json.add_json("error", error.object()).add("message", failure.what()).add("code", code);
  return json.add("type", failure.type()).add("error_type", failure.type()).object();
}

ErrorForm error_form_of(std::string_view path) {
  const bool is_openai =
      path.starts_with("/v1/") || path.starts_with("/v2/") || path == "/embeddings";
  if (is_openai) return ErrorForm::openai;
  return path.starts_with("/api/") ? ErrorForm::ollama : ErrorForm::tei;
}

HttpResponse response_of(const Failure& failure, std::string_view path) {
  return {.status = failure.status(),
          .content_type = "application/json",
          .headers = failure.headers(),
          .body = error_json(failure, error_form_of(path))};
}

}  // namespace longformer::server
