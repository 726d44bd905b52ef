#include "ops/span_masks.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "ops/device.h"
#include "ops/gradients.h"

namespace longformer::ops {

std::vector<Index> span_counts(const Tensor& spans, const SpanRamp& ramp) {
  std::vector<Index> counts;
  for (const float span : spans.to_floats()) {
    counts.push_back(kernels::span_count(ramp, static_cast<double>(span)));
  }
  return counts;
}

std::vector<double> span_lengths(const Tensor& spans, const SpanRamp& ramp) {
  std::vector<double> lengths;
  for (const float span : spans.to_floats()) {
    lengths.push_back(static_cast<double>(span) * static_cast<double>(ramp.longest));
  }
  return lengths;
}

Tensor span_keys(const Context& context, const Tensor& spans, const Tensor& distances,
                 const SpanRamp& ramp, Index count) {
  refuse_device("span_keys", spans, distances);
  Tensor keys =
      context.memory.tensor({spans.rows(), count, distances.columns() + 1}, context.dtype);
  kernels::fill_span_keys(ramp, spans, distances, keys, context.threads);
  if (!wants_backward(context, spans, distances)) return keys;
  record(context, "span_keys", keys, [context, spans, distances, ramp](const Tensor& gradient) {
    kernels::SpanKeyGradients to;
    if (wants_gradient(spans)) to.spans = &parameter_gradient(spans);
    if (wants_gradient(distances)) to.distances = &parameter_gradient(distances);
    kernels::span_keys_backward(ramp, spans, gradient, to, context.threads);
  });
  return keys;
}

Tensor span_loss(const Context& context, const Tensor& spans, float factor) {
  const std::vector<float> all = spans.to_floats();
  const float each = factor / static_cast<float>(all.size());
  const std::vector<float> sum = {each * std::accumulate(all.begin(), all.end(), 0.0f)};
  Tensor loss = Tensor::from(sum, {1});
  if (!wants_backward(context, spans)) return loss;
  record(context, "span_loss", loss, [spans, each](const Tensor& gradient) {
    Tensor& sums = parameter_gradient(spans);
    const float slope = each * gradient.to_floats()[0];
    float* to = sums.data<float>();
    std::for_each(to, to + sums.size(), [slope](float& value) { value += slope; });
  });
  return loss;
}

Tensor resized_rows(const Context& context, const Tensor& x, const RowResize& resize,
                    const Shape& shape) {
  refuse_device("resized_rows", x);
  Tensor y = context.memory.tensor(shape, x.dtype());
  kernels::resize_rows(resize, x, y, context.threads);
  if (!wants_backward(context, x)) return y;
  record(context, "resized_rows", y, [context, x, resize](const Tensor& gradient) {
    Tensor dx = context.memory.tensor(x.shape(), x.dtype());
    kernels::resize_rows({resize.to, resize.from, resize.factor}, gradient, dx, context.threads);
    send_gradient(context, x, std::move(dx));
  });
  return y;
}

}  // namespace longformer::ops
