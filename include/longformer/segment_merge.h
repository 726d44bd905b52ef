// How segments of one document are brought together.
#pragma once

namespace longformer {

/// How the logits of the segments of one document become those of the document, class by class.
enum class SegmentMerge { mean, max };

}  // namespace longformer
