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
  AttentionLimits limits;
  /// Name of the model on a page.
  std::string model;
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
