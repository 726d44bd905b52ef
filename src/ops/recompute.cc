#include "ops/recompute.h"

#include <algorithm>
#include <utility>

#include "ops/gradients.h"

namespace longformer::ops {

std::vector<Tensor> recompute(const Context& context, std::vector<Tensor> inputs, Part part) {
  if (context.tape == nullptr) return part(context, inputs);
  Context once = context;
  Tape forgetful = Tape::forgetful();
  once.tape = &forgetful;
  std::vector<Tensor> outputs = part(once, inputs);
  once.tape = nullptr;
  const bool trained = std::any_of(outputs.begin(), outputs.end(),
                                   [](const Tensor& output) { return wants_gradient(output); });
  if (!trained) return outputs;
  record(context, "recompute", std::span(outputs),
         [once, inputs = std::move(inputs), part = std::move(part)](std::vector<Tensor> gradients) {
           Tape tape;
           Context again = once;
           again.tape = &tape;
           {
             // The inputs have the slots that they had before, so their gradients go where they
             // belong.
             const std::vector<Tensor> repeated = part(again, inputs);
             for (std::size_t i = 0; i < repeated.size(); ++i) {
               if (wants_gradient(repeated[i])) {
                 repeated[i].gradient()->sum = std::move(gradients[i]);
               }
             }
           }
           tape.backward();
         });
  return outputs;
}

}  // namespace longformer::ops
