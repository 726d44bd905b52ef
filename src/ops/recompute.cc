#include "ops/recompute.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace longformer::ops {

std::vector<Tensor> recompute(const Context& context, std::vector<Tensor> inputs, Part part) {
  if (context.tape == nullptr) return part(context, inputs);
  Context once = context;
  once.tape = nullptr;
  std::vector<Tensor> outputs = part(once, inputs);
  std::vector<std::shared_ptr<Gradient>> slots;
  for (Tensor& output : outputs) {
    Tape::track(output);
    slots.push_back(output.gradient());
  }
  context.tape->record([once, slots, inputs = std::move(inputs), part = std::move(part)] {
    std::vector<Tensor> gradients;
    for (const auto& slot : slots) gradients.push_back(slot->take());
    const bool used = std::any_of(gradients.begin(), gradients.end(),
                                  [](const Tensor& gradient) { return !gradient.empty(); });
    if (!used) return;
    Tape tape;
    Context again = once;
    again.tape = &tape;
    {
      // The inputs have the slots that they had before, so their gradients go where they belong.
      const std::vector<Tensor> repeated = part(again, inputs);
      for (std::size_t i = 0; i < repeated.size(); ++i) {
        if (wants_gradient(repeated[i])) repeated[i].gradient()->sum = std::move(gradients[i]);
      }
    }
    tape.backward();
  });
  return outputs;
}

}  // namespace longformer::ops
