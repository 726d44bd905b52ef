// The forms in which the verb `attention` gives its result.
#pragma once

#include <memory>
#include <string>

#include "attention/maps.h"
#include "attention/page.h"
#include "output.h"

namespace longformer::cli {

enum class AttentionFormat { text, json, npz, html };

struct ReportOptions {
  AttentionFormat format = AttentionFormat::text;
  /// The text is a file of a table, whose fields are in quotation marks where they need them.
  bool is_table = false;
  AttentionLimits limits;
  /// Name of the model on a page.
  std::string model;

  /// A field of a line of text.
  std::string field(const std::string& text) const;
};

/// Takes the maps of one document after the other: begin, add for every map, end.
class AttentionReport {
 public:
  virtual ~AttentionReport() = default;
  virtual void begin(const AttentionDocument& document) = 0;
  virtual void add(const AttentionMap& map) = 0;
  virtual void end() = 0;
};

std::unique_ptr<AttentionReport> attention_report(const ReportOptions& options, Output& output);

}  // namespace longformer::cli
