#include "attention/reports.h"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "attention/npz.h"
#include "record_file.h"

namespace longformer::cli {

namespace {

/// Lines of one pair of tokens each, fields separated by tabs.
class TextReport final : public AttentionReport {
 public:
  TextReport(const ReportOptions& options, Output& output) : options_(options), output_(output) {}

  void begin(const AttentionDocument& document) override {
    document_ = &document;
    if (std::exchange(has_header_, true)) return;
    output_.write("document\tlayer\thead\tquery\tkey\tprobability\tquery_token\tkey_token\n");
  }

  void add(const AttentionMap& map) override {
    const std::string map_fields =
        fmt::format("{}\t{}\t{}", options_.field(document_->source.field()), name_of(map.layer),
                    name_of(map.head));
    const auto token = [this](std::int64_t i) {
      return options_.field(document_->tokens[static_cast<std::size_t>(i)]);
    };
    std::string lines;
    for (std::int64_t query = 0; query < map.tokens(); ++query) {
      for (const auto& [key, probability] : strongest(map, query, options_.limits)) {
        fmt::format_to(std::back_inserter(lines), "{}\t{}\t{}\t{:.6g}\t{}\t{}\n", map_fields, query,
                       key, probability, token(query), token(key));
      }
    }
    output_.write(lines);
  }

  void end() override { output_.flush(); }

 private:
  ReportOptions options_;
  Output& output_;
  const AttentionDocument* document_ = nullptr;
  bool has_header_ = false;
};

/// One JSON object for each map, its triplets in three arrays.
class JsonReport final : public AttentionReport {
 public:
  JsonReport(const ReportOptions& options, Output& output)
      : limits_(options.limits), output_(output) {}

  void begin(const AttentionDocument& document) override { document_ = &document; }

  void add(const AttentionMap& map) override {
    std::vector<std::int64_t> queries, keys;
    std::vector<float> probabilities;
    for (std::int64_t query = 0; query < map.tokens(); ++query) {
      for (const auto& [key, probability] : strongest(map, query, limits_)) {
        queries.push_back(query);
        keys.push_back(key);
        probabilities.push_back(probability);
      }
    }
    JsonLine json = document_->source.json();
    const auto add_number = [&json](std::string_view name, const auto& number) {
      if (number) {
        json.add(name, *number);
      } else {
        json.add(name, "mean");
      }
    };
    add_number("layer", map.layer);
    add_number("head", map.head);
    json.add("tokens", map.tokens()).add("truncated", document_->encoding.truncated);
    json.add("global_positions", document_->global_positions);
    json.add("query", queries).add("key", keys).add("probability", probabilities);
    output_.write_object(json.object());
  }

  void end() override { output_.flush(); }

 private:
  AttentionLimits limits_;
  Output& output_;
  const AttentionDocument* document_ = nullptr;
};

/// The arrays of `transformers`: "attentions.LAYER" [heads, n, columns] and, with global tokens,
/// "global_attentions.LAYER" [heads, n, x].
class NpzReport final : public AttentionReport {
 public:
  explicit NpzReport(Output& output) : output_(output), writer_(output) {}

  void begin(const AttentionDocument& document) override {
    heads_ = static_cast<std::int64_t>(document.heads.size());
  }

  void add(const AttentionMap& map) override {
    if (seen_ == 0) {
      const std::array shape = {heads_, map.tokens(), map.values.columns};
      writer_.begin("attentions." + name_of(map.layer), shape);
    }
    writer_.write(map.values.local);
    globals_.insert(globals_.end(), map.values.global.begin(), map.values.global.end());
    if (++seen_ < heads_) return;
    writer_.end();
    if (map.globals() > 0) {
      const std::array shape = {heads_, map.tokens(), map.globals()};
      writer_.begin("global_attentions." + name_of(map.layer), shape);
      writer_.write(globals_);
      writer_.end();
    }
    globals_.clear();
    seen_ = 0;
  }

  void end() override {
    writer_.finish();
    output_.flush();
  }

 private:
  Output& output_;
  NpzWriter writer_;
  std::int64_t heads_ = 0;
  /// Heads of the layer that came so far.
  std::int64_t seen_ = 0;
  std::vector<float> globals_;
};

class PageReport final : public AttentionReport {
 public:
  PageReport(const ReportOptions& options, Output& output) : options_(options), output_(output) {}

  void begin(const AttentionDocument& document) override {
    page_.emplace(
        document, options_.model,
        PageLimits{.top_k = options_.limits.top_k, .threshold = options_.limits.threshold});
  }
  void add(const AttentionMap& map) override { page_->add(map); }
  void end() override { output_.write(page_->html()); }

 private:
  ReportOptions options_;
  Output& output_;
  std::optional<AttentionPage> page_;
};

}  // namespace

std::string ReportOptions::field(const std::string& text) const {
  return is_table ? table_field(text, '\t') : text;
}

std::unique_ptr<AttentionReport> attention_report(const ReportOptions& options, Output& output) {
  switch (options.format) {
    case AttentionFormat::json:
      return std::make_unique<JsonReport>(options, output);
    case AttentionFormat::npz:
      return std::make_unique<NpzReport>(output);
    case AttentionFormat::html:
      return std::make_unique<PageReport>(options, output);
    case AttentionFormat::text:
      break;
  }
  return std::make_unique<TextReport>(options, output);
}

}  // namespace longformer::cli
