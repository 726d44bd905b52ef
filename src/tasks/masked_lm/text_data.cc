#include "tasks/masked_lm/text_data.h"

#include "formats/json.h"

namespace longformer::tasks {

void read_texts(const std::string& path, const DataOptions& given, DataReport& report,
                const std::function<void(const std::string&)>& take) {
  DataOptions options = given;
  if (options.format.empty()) options.format = path.ends_with(".jsonl") ? "jsonl" : "text";
  const auto take_one = [&](const std::string& text) {
    if (text.empty()) ++report.empty;
    take(text);
  };
  if (options.format == "jsonl" || options.format == "json") {
    read_objects(path, options, report, [&](const Json& object, const Record&) {
      take_one(string_member(object, options.text_field));
    });
    return;
  }
  if (options.format == "text") {
    ++report.examples;
    take_one(read_whole_text(path, options));
    return;
  }
  require(options.format == "lines", OptionName("data.format"),
          "expected text, lines, jsonl or json for a masked LM, found {}", options.format);
  TextLines lines = lines_of(path, options);
  std::string line;
  while (lines.next(line)) {
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    ++report.examples;
    take_one(line);
  }
}

}  // namespace longformer::tasks
