// Attention as a picture: who attends to whom, and at which distance.
#pragma once

#include <memory>
#include <string>

#include "attention/cells.h"
#include "attention/maps.h"

namespace longformer::cli {

/// Collects maps of one document and draws them. One map gets two panels: all pairs of tokens, and,
/// where the document is longer than the window, the window of every token by distance, with the
/// global tokens beside it. Several maps get one small panel each, by distance if that is possible;
/// layers are below each other, heads side by side. Only cells of the pictures are kept, never all
/// pairs.
class HeatMap {
 public:
  HeatMap(const AttentionDocument& document, Reduction reduction);
  ~HeatMap();

  void add(const AttentionMap& map);
  /// The bytes of a picture. Throws Error as picture_file does.
  std::string file(PictureFormat format) const;

 private:
  struct Panels;
  std::unique_ptr<Panels> panels_;
};

}  // namespace longformer::cli
