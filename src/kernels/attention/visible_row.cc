#include "kernels/attention/visible_row.h"

#include <vector>

#include "kernels/attention/backends.h"
#include "kernels/attention/row.h"

namespace longformer::kernels {

float attend_visible(const AttentionSpec& spec, const AttentionTensors& in,
                     const AttentionDocument& document, Index head, Index row, float* out) {
  const auto row_of = [head](const Tensor& tensor, Index index) {
    const auto bytes = static_cast<Index>(element_size(tensor.dtype())) * tensor.dimension(2);
    return static_cast<const std::byte*>(tensor.raw()) +
           (head * tensor.dimension(1) + index) * bytes;
  };
  const DocumentRows rows(spec, document);
  const Index query = row - document.query_begin;
  std::vector<std::uint8_t> visible(at(document.key_count));
  HeadPattern pattern = spec.heads[at(head)];
  if (rows.queries[at(query)] == QueryKind::everything) {
    pattern = {kUnlimitedReach, kUnlimitedReach, 1};
  }
  mark_visible(rows, pattern, query, visible);
  return attend_row({.query = row_of(in.query, row),
                     .keys = row_of(in.key, document.key_begin),
                     .values = row_of(in.value, document.key_begin),
                     .dtype = in.query.dtype(),
                     .head_size = spec.head_size,
                     .count = document.key_count,
                     .visible = visible.data()},
                    out);
}

}  // namespace longformer::kernels
