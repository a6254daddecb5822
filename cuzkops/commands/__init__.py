"""One verb a file: options -> request record -> step -> what is shown."""
