#include "results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "output_files.h"

namespace longformer::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kForms = std::to_array<NamedFormat<ResultForm>>({
    {".txt", "text", ResultForm::text},
    {".jsonl", "json", ResultForm::rows},
    {".ndjson", "json", ResultForm::rows},
    {".json", "json", ResultForm::rows},
    {".csv", "csv", ResultForm::table},
    {".tsv", "tsv", ResultForm::table},
    {".npy", "npy", ResultForm::array},
});

std::string dumped(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// The members of objects as members of the outermost one.
void flatten(const Json& object, const std::string& before, Json& flat) {
  for (const auto& [name, value] : object.items()) {
    if (value.is_object() && !value.empty()) {
      flatten(value, before + name + ".", flat);
    } else {
      flat[before + name] = value;
    }
  }
}

}  // namespace

ResultForm form_of(const ModelFlags& flags, bool has_array) {
  const std::string suffix = suffix_of(flags.output);
  const auto* known = std::ranges::find(kForms, suffix, &NamedFormat<ResultForm>::suffix);
  const bool is_known = known != kForms.end() && (has_array || known->format != ResultForm::array);
  if (!suffix.empty() && !is_known) {
    std::vector<std::string_view> suffixes;
    for (const auto& form : kForms) {
      if (has_array || form.format != ResultForm::array) suffixes.push_back(form.suffix);
    }
    throw UsageError("--output", fmt::format("expected a name that ends in {}, found {}",
                                             fmt::join(suffixes, ", "), in_quotes(flags.output)));
  }
  if (suffix.empty()) return flags.json ? ResultForm::rows : ResultForm::text;
  if (flags.json && known->format != ResultForm::rows) {
    throw UsageError("--json",
                     fmt::format("expected a name that ends in .jsonl or .json beside it, "
                                 "found {}",
                                 in_quotes(flags.output)));
  }
  return known->format;
}

std::vector<std::string> columns_of_documents(const std::vector<std::string>& own) {
  std::vector<std::string> all = {"file", "line", "id"};
  all.insert(all.end(), own.begin(), own.end());
  // Behind the others, whose places are older.
  all.insert(all.end(), {"record", "error"});
  return all;
}

Results::Results(const ModelFlags& flags, std::vector<std::string> columns, bool has_array)
    : form_(form_of(flags, has_array)) {
  if (form_ == ResultForm::table) {
    table_.emplace(flags.output);
    set_columns(std::move(columns));
  } else if (flags.output.empty()) {
    output_.emplace();
  } else {
    output_.emplace(flags.output);
  }
}

void Results::set_columns(std::vector<std::string> columns) {
  if (table_) table_->set_columns(std::move(columns));
}

void Results::add(const JsonLine& row) {
  if (table_) {
    table_->add(row.object());
  } else {
    output_->write_object(row.object());
  }
}

void Results::add_list(const JsonLine& row, std::string_view list) {
  if (!table_) return add(row);
  const std::string elements = json_member(row.object(), list);
  if (elements.empty()) return add(row);
  JsonLine others;
  for (const JsonMember& member : json_members(row.object())) {
    others.add_json(member.name, member.name == list ? "null" : member.value);
  }
  // The last one of equal names counts.
  for (const std::string_view element : json_elements(elements)) {
    table_->add(JsonLine(others).add_members(element).object());
  }
}

void Results::flush() {
  if (output_) output_->flush();
}

void Results::finish() { table_ ? table_->finish() : output_->finish(); }

ModelFlags with_form(ModelFlags flags) {
  flags.json = form_of(flags) != ResultForm::text;
  return flags;
}

void write_report(const ModelFlags& flags, std::string_view text, std::string_view list) {
  Results results(flags);
  if (!results.has_rows()) {
    results.output().write(text);
    return results.finish();
  }
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string object(text.substr(at, end - at));
    if (results.is_table()) {
      Json flat = Json::object();
      flatten(Json::parse(object), "", flat);
      object = dumped(flat);
    }
    results.add_list(JsonLine().add_members(object), list);
    at = end + 1;
  }
  results.finish();
}

RowIds::RowIds(const std::string& array) : name_(array.empty() ? "" : ids_name(array)) {}

void RowIds::write(std::string_view place, const std::string& id) {
  JsonLine row;
  row.add("row", rows_++).add_members(place);
  file_->add((id.empty() ? row.add_null("id") : row).object());
}

void RowIds::add(const Document& document, std::int64_t rows) {
  if (name_.empty()) return;
  const std::string place = document.json().object();
  for (std::int64_t i = 0; i < rows; ++i) {
    if (!file_ && document.id.empty()) {
      before_.push_back(place);
      continue;
    }
    if (!file_) {
      file_.emplace(name_);
      file_->set_columns({"row", "file", "line", "id", "record"});
      for (const std::string& one : std::exchange(before_, {})) write(one, "");
    }
    write(place, document.id);
  }
}

void RowIds::finish() {
  if (file_) file_->finish();
}

}  // namespace longformer::cli
