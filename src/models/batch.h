// Documents of different lengths behind each other: what a forward pass gets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/spec.h"
#include "models/edges.h"

namespace longformer::models {

struct EncoderConfig;

/// One element per token of all documents. Every id, type and position is a row of its table.
struct Batch {
  std::vector<std::int32_t> ids, types, positions;
  /// First row of each document, and the number of rows at the end.
  std::vector<Index> starts;
  /// 1 visible, 0 masked; empty when nothing is masked.
  std::vector<std::uint8_t> mask;
  /// Rows of global tokens, ascending, none of them masked.
  std::vector<Index> global_rows;
  /// Between rows that are neither masked nor global.
  std::vector<Edge> edges = {};

  Index rows() const { return static_cast<Index>(ids.size()); }
  Index documents() const { return static_cast<Index>(starts.size()) - 1; }
};

/// A document of n tokens on its way into a batch. An empty span stands for what is usual: type 0,
/// the positions of the model, every token visible, none global.
struct Sequence {
  /// [n]
  std::span<const std::int32_t> ids, types = {}, positions = {};
  /// [n] 1 visible, 0 masked.
  std::span<const std::int32_t> mask = {};
  /// Tokens with global attention, ascending; masked ones among them have none.
  std::span<const Index> globals = {};
  /// Those from or to masked and global tokens do not count: the latter see, and are seen by, all.
  std::span<const Edge> edges = {};
};

/// Lays documents behind each other and checks each against the model.
class BatchBuilder {
 public:
  /// The configuration must outlive the builder.
  explicit BatchBuilder(const EncoderConfig& config) : config_(config) { batch_.starts = {0}; }

  /// Throws Error that begins with `name` for a document without tokens or longer than the model
  /// takes, for values that are in none of its tables, for global tokens in a dense model, and
  /// for edges in a model without.
  void add(const Sequence& document, const std::string& name);
  Index rows() const { return batch_.rows(); }
  /// All that was added; the builder is empty again.
  Batch finish();

 private:
  void check(const Sequence& document, const std::string& name) const;
  void check_edges(const Sequence& document, const std::string& name) const;

  const EncoderConfig& config_;
  Batch batch_;
  bool any_masked_ = false;
};

}  // namespace longformer::models
