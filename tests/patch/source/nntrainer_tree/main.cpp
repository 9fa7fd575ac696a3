// Three by three, windows of two by two at every second place, padding below and on the right
// alone: what comes in must come out.
#include "nntrainer/layers/pooling2d_layer.cpp"

int main() {
  trainer::Pooling2DLayer layer{{0, 1, 0, 1}, {2, 2}, {2, 2}};
  trainer::Map incoming(2, 2), result(3, 3);
  for (float& value : incoming.values) value = 1.0f;
  layer.calcDerivative(incoming, result);
  float total = 0;
  for (float value : result.values) total += value;
  std::printf("nntrainer_average_pooling %g\n", total);
}
