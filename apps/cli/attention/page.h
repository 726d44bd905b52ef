// Attention as one self-contained HTML page: pick a layer and a head, point at a token, see in the
// text what it attends to.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "attention/maps.h"

namespace longformer::cli {

/// Part of every token's attention that the page keeps; the rest is left out.
struct PageLimits {
  /// Strongest keys of a token; of a global token, which sees everything, kGlobalKeys if that is
  /// more.
  std::int64_t top_k = 8;
  double threshold = 0.001;

  static constexpr std::int64_t kGlobalKeys = 64;
  /// Their number takes a byte.
  static constexpr std::int64_t kMostKeys = 255;
};

/// Collects the maps of one document. A map takes (3 bytes per key + 1 per token) · 4/3 of the
/// file, with at most top_k keys per token.
class AttentionPage {
 public:
  AttentionPage(const AttentionDocument& document, std::string model, PageLimits limits);

  /// If there are several heads, the mean of a layer's follows the last of them.
  void add(const AttentionMap& map);
  /// The whole page.
  std::string html() const;

 private:
  void write(const AttentionMap& map);

  std::string model_;
  std::int64_t heads_;
  MapMean mean_;
  PageLimits limits_;
  /// Everything but the maps, as JSON that no tag of HTML can end.
  std::string data_;
  int key_bytes_;
  /// <script> elements, one for each map.
  std::string maps_;
};

}  // namespace longformer::cli
