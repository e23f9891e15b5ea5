"""How many NeuronCores SageMaker's training toolkit finds."""

import sys

from sagemaker_training import environment

print(environment.num_neurons(sys.argv[1]))
